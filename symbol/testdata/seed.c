/* The smallest program with inlined calls, for the corpus of the fuzzers. */
static inline int add(int a, int b) { return a + b; }
static inline int twice(volatile int *p) {
  int v = *p;
  return v > 3 ? add(v, v) : *p;
}
volatile int cell;
__attribute__((noinline)) int work(int n) {
  while (n-- > 0)
    cell = twice(&cell);
  return add(cell, n);
}
void _start(void) {
  work(5);
  for (;;)
    ;
}
