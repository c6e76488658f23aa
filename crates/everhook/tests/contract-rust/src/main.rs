//! Calls a server through the svix crate, for the exercises of the contract tests, which are written in Python.
//!
//!     contract-rust SERVER_URL
//!
//! The first line of the output lists the operations. Each line of the input is a call, with its arguments as JSON. The
//! crate's own types read the arguments and the answer of the server, and write the line of the output. Thereby one
//! exercise tests two packages, and a field that the crate does not understand is missing in the answer.

mod call;
mod operations;

use svix::Svix;
use svix::api::SvixOptions;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, stdin, stdout};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::call::Call;

/// Lines of output that wait for the reader.
const LINES_MAX: usize = 100;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server_url = std::env::args().nth(1).expect("the first argument is the URL of the server");
    let (answers, lines) = mpsc::channel(LINES_MAX);
    answers.send(serde_json::json!({ "operations": operations::OPERATIONS })).await.expect("the writer runs");
    let local = LocalSet::new();
    local.spawn_local(answer_calls(server_url, answers));
    local.run_until(write_lines(lines)).await;
}

async fn answer_calls(server_url: String, answers: mpsc::Sender<serde_json::Value>) {
    let options = SvixOptions { server_url: Some(server_url), ..SvixOptions::default() };
    // Clients share one pool of connections.
    let client = Svix::new(String::new(), Some(options));
    let mut input = BufReader::new(stdin()).lines();
    while let Some(line) = input.next_line().await.expect("the input is text") {
        let call: Call = serde_json::from_str(&line).expect("a line of the input is a call");
        let client = client.with_token(call.token.clone());
        let answers = answers.clone();
        tokio::task::spawn_local(async move {
            let answer = operations::run(&client, &call).await;
            // The reader has gone if this fails, and the program ends.
            let _ = answers.send(call::line(call.id, answer)).await;
        });
    }
}

async fn write_lines(mut lines: mpsc::Receiver<serde_json::Value>) {
    let mut output = stdout();
    while let Some(line) = lines.recv().await {
        output.write_all(format!("{line}\n").as_bytes()).await.expect("the output is open");
        output.flush().await.expect("the output is open");
    }
}
