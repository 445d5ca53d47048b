// A program with the frames that unwinding has to cross: deep recursion
// without frame pointers, a qsort callback through libc, a signal handler on
// an alternate stack, a realigned frame and a variable-length frame. It
// stops itself at the bottom of the path that argv[1] names, for a debugger
// to read its stack.
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

volatile int sink;

// bottom stops the process where the test looks at it. The trap leaves no
// frames of libc above it.
NOINLINE void bottom(void) {
	__asm__ volatile("int3");
	sink++;
}

NOINLINE int recurse(int depth) {
	if (depth == 0) {
		bottom();
		return sink;
	}
	return recurse(depth - 1) + depth + sink;
}

NOINLINE int compare(const void *a, const void *b) {
	static int done;
	if (!done++)
		bottom();
	return *(const int *)a - *(const int *)b;
}

NOINLINE void callback(void) {
	int values[] = {3, 1, 2};
	qsort(values, 3, sizeof values[0], compare);
	sink += values[0];
}

NOINLINE void handler(int number) {
	bottom();
	sink += number;
}

NOINLINE void raise_signal(void) {
	*(volatile int *)0 = sink;
	sink++;
}

NOINLINE void signalled(void) {
	static char stack[65536];
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = handler;
	action.sa_flags = SA_ONSTACK;
	sigaltstack(&alternate, NULL);
	sigaction(SIGSEGV, &action, NULL);
	raise_signal();
	sink++;
}

NOINLINE void empty_handler(int number) { sink += number; }

NOINLINE void repeated(void) {
	signal(SIGUSR1, empty_handler);
	bottom();
	raise(SIGUSR1);
	raise(SIGUSR1);
	sink += getppid();
}

NOINLINE void dynamic(int size) {
	char *block = alloca(size);
	memset(block, sink, size);
	recurse(3);
	sink += block[size / 2];
}

NOINLINE void realigned(int size) {
	char aligned[256] __attribute__((aligned(64)));
	char *block = alloca(size);
	memset(aligned, sink, sizeof aligned);
	memset(block, sink, size);
	recurse(3);
	sink += aligned[sink & 127] + block[size / 2];
}

NOINLINE void *thread(void *unused) {
	recurse(5);
	sink++;
	return unused;
}

int main(int argc, char **argv) {
	const char *path = argc > 1 ? argv[1] : "recurse";
	if (!strcmp(path, "recurse"))
		recurse(argc > 2 ? atoi(argv[2]) : 40);
	else if (!strcmp(path, "callback"))
		callback();
	else if (!strcmp(path, "signal"))
		signalled();
	else if (!strcmp(path, "repeated signal"))
		repeated();
	else if (!strcmp(path, "dynamic"))
		dynamic(100);
	else if (!strcmp(path, "realigned"))
		realigned(100);
	else if (!strcmp(path, "thread")) {
		pthread_t id;
		pthread_create(&id, NULL, thread, NULL);
		pthread_join(id, NULL);
	}
	return 0;
}
