/* A program for scripts/test-kernel.sh: four functions deep, no frame pointers,
 * and a timer signal whose handler works too. Built static, so that the guest
 * needs no libraries. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#define NOINLINE __attribute__((noinline, noclone))
static volatile unsigned long sink;

static NOINLINE unsigned long burn(unsigned long n) {
  unsigned long x = 88172645463325252UL;
  while (n--) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
  return x;
}

static NOINLINE void handler(int signal) { sink += burn(200000) + signal; }

static NOINLINE unsigned long leaf(unsigned long n) {
  unsigned long local[6];
  memset(local, (int)n, sizeof local);
  for (int i = 0; i < 6; i++) local[i] ^= burn(n);
  return local[n % 6];
}
static NOINLINE unsigned long inner(unsigned long n) { return leaf(n) + sink; }
static NOINLINE unsigned long middle(unsigned long n, unsigned long a, unsigned long b) {
  unsigned long sum = 0;
  for (unsigned long i = 0; i < a; i++) sum += inner(n) * b;
  return sum;
}
static NOINLINE unsigned long outer(unsigned long n) { return middle(n, 6, n) ^ sink; }

int main(void) {
  struct sigaction action = {.sa_handler = handler};
  struct itimerval timer = {{0, 50000}, {0, 50000}};
  sigaction(SIGPROF, &action, 0);
  setitimer(ITIMER_PROF, &timer, 0);
  for (int i = 0; i < 8; i++) sink += outer(150000);
  printf("workload: %lu\n", sink & 1);
  return 0;
}
