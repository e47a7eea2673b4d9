/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * All libraries in one program: it is linked with the sources of every folder of lib/ below
 * preload/, each once.  A name with two definitions, or with none below preload/, is an error of
 * the linker.
 */
int main(void)
{
	return 0;
}
