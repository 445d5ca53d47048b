/* Loops, static inline functions three deep, a cold path that GCC splits off,
 * and a recursive function: what a small C program gives a symbolizer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item {
  unsigned key;
  char name[12];
};

static inline int order(unsigned a, unsigned b) { return a < b ? -1 : a > b; }

static inline int compare_items(const struct item *a, const struct item *b) {
  int c = order(a->key, b->key);
  return c ? c : memcmp(a->name, b->name, sizeof a->name);
}

__attribute__((cold, noinline)) static void complain(const char *what) {
  fprintf(stderr, "sort: %s\n", what);
  abort();
}

static void sift(struct item *items, size_t root, size_t count) {
  for (;;) {
    size_t child = 2 * root + 1;
    if (child >= count)
      return;
    if (child + 1 < count && compare_items(&items[child], &items[child + 1]) < 0)
      child++;
    if (compare_items(&items[root], &items[child]) >= 0)
      return;
    struct item swap = items[root];
    items[root] = items[child];
    items[child] = swap;
    root = child;
  }
}

void heap_sort(struct item *items, size_t count) {
  if (!items)
    complain("no items");
  for (size_t i = count / 2; i-- > 0;)
    sift(items, i, count);
  for (size_t end = count; end-- > 1;) {
    struct item swap = items[0];
    items[0] = items[end];
    items[end] = swap;
    sift(items, 0, end);
  }
}

__attribute__((noinline)) unsigned long depth(unsigned long n) {
  return n < 2 ? n : depth(n - 1) + depth(n - 2);
}

__attribute__((constructor)) static void prepare(void) { setvbuf(stdout, NULL, _IOLBF, 0); }

int main(int argc, char **argv) {
  size_t count = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000;
  struct item *items = calloc(count, sizeof *items);
  if (!items && count)
    complain("out of memory");
  unsigned state = 1;
  for (size_t i = 0; i < count; i++) {
    state = state * 1103515245u + 12345u;
    items[i].key = state >> 16;
    snprintf(items[i].name, sizeof items[i].name, "%zu", i);
  }
  heap_sort(items, count);
  for (size_t i = 1; i < count; i++)
    if (compare_items(&items[i - 1], &items[i]) > 0)
      complain("not sorted");
  printf("%lu\n", depth(20));
  free(items);
  return 0;
}
