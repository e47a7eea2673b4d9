"""The parts of tools/real-programs."""
