"""The check of paths in /proc finds a path of a task that nobody asked for, in each language."""

import tempfile
import unittest
from pathlib import Path

from checks import proc_paths


class ProcPaths(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.top = Path(directory.name)

    def breaches(self, name: str, text: str) -> list[str]:
        file = self.top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return proc_paths.breaches(self.top)

    def test_a_path_made_in_rust_is_a_breach(self):
        found, = self.breaches("crates/tekd/src/a.rs", 'fs::read(format!("/proc/{tid}/stat"))')
        self.assertTrue(found.startswith("crates/tekd/src/a.rs: "), found)
        self.assertEqual(
            len(self.breaches("crates/tekd/src/a.rs", 'Path::new("/proc").join(name)')), 1)

    def test_a_path_of_tek_procfs_and_one_of_no_task_are_none(self):
        self.assertEqual(self.breaches("crates/tekd/src/a.rs", '''
            path(tid, "stat").and_then(fs::read);
            fs::read("/proc/self/maps"); fs::read_dir("/proc");'''), [])

    def test_a_test_may_make_its_paths(self):
        self.assertEqual(self.breaches("crates/tekd/src/a.rs", '''
#[cfg(test)]
mod tests {
    fs::read(format!("/proc/{tid}/stat"));
}'''), [])

    def test_in_c_each_path_needs_its_question(self):
        path = 'snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)tid);\n'
        self.assertEqual(len(self.breaches("lib/a.c", path)), 1)
        asks = "if (tek__procfs_exists(tid))\n"
        self.assertEqual(self.breaches("lib/a.c", path + asks), [])
        self.assertEqual(len(self.breaches("lib/a.c", path + asks + path)), 1)


if __name__ == "__main__":
    unittest.main()
