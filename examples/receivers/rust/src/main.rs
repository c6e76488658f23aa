//! A receiver that verifies deliveries with the standardwebhooks library.
//!
//!     WEBHOOK_SECRET=whsec_... cargo run -- [PORT]

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use standardwebhooks::Webhook;

struct Receiver {
    webhook: Webhook,
    /// Processed ids, in memory. Use a table with the id as its primary key.
    done: Mutex<HashSet<String>>,
}

/// Verifies the bytes as received: a body that was parsed and serialised again has another signature.
async fn receive(State(receiver): State<Arc<Receiver>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if let Err(reason) = receiver.webhook.verify(&body, &headers) {
        println!("refused: {reason}");
        return StatusCode::UNAUTHORIZED;
    }
    let id = headers["webhook-id"].to_str().unwrap_or_default().to_owned();
    let text = String::from_utf8_lossy(&body);
    // A message may arrive again with the same id. Duplicates also get a 2xx response.
    match receiver.done.lock().unwrap().insert(id.clone()) {
        true => println!("received {id} {text}"),
        false => println!("repeated {id}"),
    }
    StatusCode::NO_CONTENT
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let webhook = Webhook::new(&std::env::var("WEBHOOK_SECRET")?)?;
    let receiver = Arc::new(Receiver { webhook, done: Mutex::default() });
    let port = std::env::args().nth(1).map_or(Ok(9000), |port| port.parse())?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on http://{}/", listener.local_addr()?);
    axum::serve(listener, Router::new().route("/", post(receive)).with_state(receiver)).await?;
    Ok(())
}
