// Frames of arm64 code, with signed return addresses. Built by
//
//	aarch64-linux-gnu-gcc -O2 -fPIC -shared -nostdlib -mbranch-protection=pac-ret \
//		-Wl,-z,max-page-size=4096 -Wl,--build-id=none -s -o frames.so frames.c
__attribute__((noinline)) int leaf(int x) { return x * 3; }

extern int other(int, char *);

__attribute__((noinline)) int caller(int x) {
	return leaf(x) + other(x, 0);
}

int large(int x) {
	char block[20000];
	other(x, block);
	return block[x] + x;
}

int dynamic(int x) {
	char *block = __builtin_alloca(x);
	other(x, block);
	return block[x / 2] + x;
}

int huge(int x) {
	char block[100000];
	other(x, block);
	return block[x] + x;
}
