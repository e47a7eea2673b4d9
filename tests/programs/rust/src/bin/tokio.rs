// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks that sleep, blocking calls, and a TCP connection to itself by tokio. Prints the results.
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn greeting() -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        stream.write_all(b"hello").await
    });
    let mut text = String::new();
    TcpStream::connect(address).await?.read_to_string(&mut text).await?;
    server.await.expect("the server's task")?;
    Ok(text)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() -> std::io::Result<()> {
    let tasks: Vec<_> = (0..200u64)
        .map(|n| {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                tokio::task::spawn_blocking(move || n).await.expect("a blocking call")
            })
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += task.await.expect("a task");
    }
    println!("sum {sum}, {}", greeting().await?);
    Ok(())
}
