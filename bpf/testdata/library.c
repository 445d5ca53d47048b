// A library for `stacks reload`. Libraries differ in the size of their frames,
// so that the table of one does not unwind the other. Built by the tests:
// gcc -O2 -fomit-frame-pointer -shared -fPIC -DFRAME=64 -DNAME=only_in_1 library.c
__attribute__((noinline, noclone)) int NAME(volatile unsigned long *spins)
{
	volatile char frame[FRAME];
	frame[0] = 1;
	for (int i = 0; i < 500000; i++)
		++*spins;
	return frame[0];
}

int library_spin(volatile unsigned long *spins)
{
	return NAME(spins) + 1;
}
