"""Qt: tasks in a thread pool, then a window that is drawn into a picture. Prints the results."""

import sys
import threading

from PyQt5.QtCore import QRunnable, QThreadPool, QTimer
from PyQt5.QtWidgets import QApplication, QLabel

TASKS = 40
results = []
lock = threading.Lock()


class Task(QRunnable):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def run(self):
        with lock:
            results.append(self.number)


def main():
    application = QApplication(sys.argv)
    label = QLabel("hello")
    label.resize(160, 120)
    label.setStyleSheet("background: #00ff00")
    pool = QThreadPool()
    pool.setMaxThreadCount(4)
    for number in range(TASKS):
        pool.start(Task(number))

    def draw():
        pool.waitForDone()
        picture = label.grab().toImage()
        corner = picture.pixelColor(1, 1).name()
        print(f"sum {sum(results)}, {picture.width()} x {picture.height()}, {corner}")
        application.quit()

    QTimer.singleShot(20, draw)
    return application.exec_()


if __name__ == "__main__":
    sys.exit(main())
