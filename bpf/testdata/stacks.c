// Spins on a stack of a known shape. Usage: stacks SHAPE [DEPTH]
//
// Built by the tests: gcc -g0 -O2 -fomit-frame-pointer -fno-optimize-sibling-calls
// -pthread [-static|-no-pie|...] stacks.c
#define _GNU_SOURCE
#include <alloca.h>
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile unsigned long spins, sink;
static volatile int stop; // never set; tells the compiler that spinning ends

// A loop that keeps its stack frame, so that any two samples agree.
NOINLINE void spin_here(void)
{
	while (!stop)
		spins++;
}

NOINLINE int recurse(int depth)
{
	if (depth <= 1)
		spin_here();
	int result = recurse(depth - 1) + 1;
	sink = result;
	return result;
}

// The frame's size is not known when it is compiled: the CFA needs rbp.
NOINLINE int dynamic(int depth)
{
	char *buffer = alloca(depth * 16 + 16);
	memset(buffer, depth, depth * 16 + 16);
	sink = (unsigned long)buffer;
	if (depth <= 1)
		spin_here();
	int result = dynamic(depth - 1) + buffer[0];
	sink = result;
	return result;
}

// A frame that is realigned: the CFA is read from the stack.
NOINLINE int aligned(int depth, int a, int b, int c, int d, int e, int on_stack)
{
	volatile char buffer[128] __attribute__((aligned(64)));
	buffer[depth & 127] = on_stack;
	sink = (unsigned long)buffer;
	if (depth <= 1)
		spin_here();
	int result = aligned(depth - 1, a, b, c, d, e, on_stack + 1) + buffer[depth & 127];
	sink = result;
	return result;
}

NOINLINE void handler(int number)
{
	sink = number;
	spin_here();
}

NOINLINE int compare(const void *a, const void *b)
{
	sink = *(const int *)a - *(const int *)b;
	spin_here();
	return 0;
}

NOINLINE void clock_loop(void)
{
	struct timespec now;
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sink += now.tv_nsec;
	}
}

// Calls through the procedure linkage table; -z lazy or not.
NOINLINE void plt_loop(void)
{
	for (;;)
		sink += toupper(sink & 127);
}

NOINLINE void syscall_loop(void)
{
	static char buffer[1 << 16];
	int zero = open("/dev/zero", O_RDONLY);
	for (;;)
		sink += read(zero, buffer, sizeof buffer);
}

NOINLINE void *thread_main(void *depth)
{
	sink = recurse((int)(long)depth);
	return NULL;
}

// Maps and unmaps data all the time, which must not spoil what is known about
// the code.
NOINLINE void mapping_loop(void)
{
	for (;;) {
		char *p = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		p[0] = 1;
		sink += p[0];
		munmap(p, 1 << 16);
	}
}

// push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret
static const unsigned char generated[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};

NOINLINE void call_generated(void)
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(code, generated, sizeof generated);
	((void (*)(void (*)(void)))code)(spin_here);
	sink++;
}

// Loads the libraries given in turn. Their code comes to lie where that of the
// one before was.
NOINLINE void reload(char **paths, int count)
{
	for (int i = 0;; i = (i + 1) % count) {
		void *library = dlopen(paths[i], RTLD_NOW);
		if (!library) {
			fprintf(stderr, "%s\n", dlerror());
			exit(1);
		}
		((void (*)(volatile unsigned long *))dlsym(library, "library_spin"))(&spins);
		dlclose(library);
	}
}

int main(int argc, char **argv)
{
	const char *shape = argc > 1 ? argv[1] : "recurse";
	long depth = argc > 2 ? atol(argv[2]) : 1;
	pthread_t thread;
	int numbers[] = {2, 1};

	if (!strcmp(shape, "recurse"))
		return recurse(depth);
	if (!strcmp(shape, "dynamic"))
		return dynamic(depth);
	if (!strcmp(shape, "aligned"))
		return aligned(depth, 1, 2, 3, 4, 5, 6);
	if (!strcmp(shape, "signal")) {
		signal(SIGUSR1, handler);
		raise(SIGUSR1);
	}
	if (!strcmp(shape, "qsort"))
		qsort(numbers, 2, sizeof numbers[0], compare);
	if (!strcmp(shape, "clock"))
		clock_loop();
	if (!strcmp(shape, "plt"))
		plt_loop();
	if (!strcmp(shape, "syscall"))
		syscall_loop();
	if (!strcmp(shape, "mappings"))
		mapping_loop();
	if (!strcmp(shape, "generated"))
		call_generated();
	if (!strcmp(shape, "thread")) {
		pthread_create(&thread, NULL, thread_main, (void *)depth);
		pthread_join(thread, NULL);
	}
	if (!strcmp(shape, "reload"))
		reload(argv + 2, argc - 2);
	return sink;
}
