// Small objects with each kind of call frame section, for fuzzing. Built by
//
//	gcc -O2 -fPIC -shared -nostdlib -Wl,-z,lazy -Wl,-z,max-page-size=4096 \
//		-Wl,--build-id=none -s -o frames.so frames.c
//	gcc -O2 -g1 -gz=none -fPIC -shared -nostdlib -fno-asynchronous-unwind-tables \
//		-Wl,-z,max-page-size=4096 -Wl,--build-id=none -o debug.so frames.c
//	strip --strip-debug --keep-section=.debug_frame debug.so
extern int other(int, char *);

int framed(int x) { return other(x, 0) * 3; }

int realigned(int x) {
	char aligned[256] __attribute__((aligned(64)));
	char *block = __builtin_alloca(x);
	other(x, aligned);
	other(x, block);
	return aligned[x] + block[x / 2];
}
