// SPDX-License-Identifier: MIT OR Apache-2.0

// Two worker threads, the thread pool (crypto), and an HTTP request to itself. Prints the results.
"use strict";
const { Worker, isMainThread, parentPort } = require("worker_threads");

function sumOfWorkers(count) {
	const one = () => new Promise((resolve, reject) => {
		const worker = new Worker(__filename);
		worker.once("message", resolve);
		worker.once("error", reject);
	});
	return Promise.all(Array.from({ length: count }, one)).then((sums) => sums.reduce((a, b) => a + b));
}

function hashes(count) {
	const { pbkdf2 } = require("crypto");
	const one = () => new Promise((resolve, reject) =>
		pbkdf2("tek", "salt", 1000, 8, "sha256", (error, key) => error ? reject(error) : resolve(key)));
	return Promise.all(Array.from({ length: count }, one)).then((keys) => keys.length);
}

function request() {
	const http = require("http");
	return new Promise((resolve, reject) => {
		const server = http.createServer((_, response) => response.end("hello"));
		server.listen(0, "127.0.0.1", () => {
			http.get({ port: server.address().port, host: "127.0.0.1", agent: false }, (response) => {
				let body = "";
				response.on("data", (part) => { body += part; });
				response.on("end", () => server.close(() => resolve(body)));
			}).on("error", reject);
		});
	});
}

if (isMainThread) {
	Promise.all([sumOfWorkers(2), hashes(8), request()]).then(([sum, keys, body]) =>
		console.log(`sum ${sum}, ${keys} keys, ${body}`));
} else {
	let sum = 0;
	for (let n = 0; n < 1000; n++) sum += n;
	parentPort.postMessage(sum);
}
