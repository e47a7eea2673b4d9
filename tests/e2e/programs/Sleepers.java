// SPDX-License-Identifier: MIT OR Apache-2.0

/** Named threads that sleep until the end of standard input. */
class Sleepers {
    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < 4; i++) {
            Thread thread = new Thread(Sleepers::sleep, "sleeper-" + i);
            thread.setDaemon(true);
            thread.start();
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {
        }
    }

    private static void sleep() {
        try {
            Thread.sleep(60_000);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }
}
