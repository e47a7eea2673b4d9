"""Clean systems to build and test in: tools/fresh-chroot."""
