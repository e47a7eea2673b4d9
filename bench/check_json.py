# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run a benchmark program; succeed if it does and every line it prints is valid JSON."""

import json
import subprocess
import sys

done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True, timeout=100)
for line in done.stdout.splitlines():
    json.loads(line)
sys.exit(done.returncode or not done.stdout)
