//! A plain HTTP client of the API. Every status and every broken connection reaches the test.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everhook_core::api_key::ApiKey;
use everhook_testkit::http::{self, Call, Reply};
use everhook_testkit::rng::{self, Rng};
use everhook_testkit::wait::until;
use serde_json::{Value, json};

/// The server answers every request within seconds, if only with 503.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Address of a server. It changes when the server restarts.
#[derive(Clone, Default)]
pub(crate) struct Address(Arc<Mutex<String>>);

impl Address {
    pub(crate) fn set(&self, address: String) {
        *self.0.lock().unwrap() = address;
    }

    pub(crate) fn get(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

/// A client with one key.
#[derive(Clone)]
pub(crate) struct Client {
    address: Address,
    key: String,
}

impl Client {
    pub(crate) fn new(address: Address, key: &str) -> Client {
        Client { address, key: key.to_owned() }
    }

    pub(crate) fn address(&self) -> String {
        self.address.get()
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"").expect("an answer")
    }

    #[track_caller]
    pub(crate) fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], b"").expect("an answer")
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[], body.to_string().as_bytes()).expect("an answer")
    }

    #[track_caller]
    pub(crate) fn put(&self, path: &str, body: &Value) -> Reply {
        self.send("PUT", path, &[], body.to_string().as_bytes()).expect("an answer")
    }

    #[track_caller]
    pub(crate) fn patch(&self, path: &str, body: &Value) -> Reply {
        self.send("PATCH", path, &[], body.to_string().as_bytes()).expect("an answer")
    }

    /// Sends one request on its own connection. `Err` means no reply, whatever the server did.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Reply> {
        self.send_to(method, &format!("/api/v1{path}"), headers, body)
    }

    /// Sends one request to any path of the server.
    pub(crate) fn send_to(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Reply> {
        let call = Call { method, path, key: &self.key, headers, body };
        http::call_and_wait(&self.address.get(), call, READ_TIMEOUT)
    }

    /// Reads every page of a list.
    #[track_caller]
    pub(crate) fn list(&self, path: &str) -> Vec<Value> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let mut items = Vec::new();
        let mut after = String::new();
        loop {
            let page = self.get(&format!("{path}{mark}limit=250{after}")).expect(200);
            items.extend(page["data"].as_array().expect("a list").iter().cloned());
            if page["done"] == true {
                return items;
            }
            after =
                format!("&iterator={}", page["iterator"].as_str().expect("a list that is not done has an iterator"));
        }
    }

    #[track_caller]
    pub(crate) fn application(&self, name: &str) -> Application {
        let made = self.post("/app", &json!({ "name": name })).expect(201);
        Application { client: self.clone(), id: text(&made["id"]) }
    }
}

#[derive(Clone)]
pub(crate) struct Application {
    pub(crate) client: Client,
    pub(crate) id: String,
}

/// An endpoint with its signing secret.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) id: String,
    pub(crate) secret: String,
}

impl Application {
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/app/{}{rest}", self.id)
    }

    #[track_caller]
    pub(crate) fn endpoint(&self, url: &str) -> Endpoint {
        self.endpoint_with(json!({ "url": url }))
    }

    #[track_caller]
    pub(crate) fn endpoint_with(&self, fields: Value) -> Endpoint {
        let made = self.client.post(&self.path("/endpoint"), &fields).expect(201);
        let id = text(&made["id"]);
        let secret = self.client.get(&self.path(&format!("/endpoint/{id}/secret"))).expect(200);
        Endpoint { secret: text(&secret["key"]), id }
    }

    #[track_caller]
    pub(crate) fn send(&self, payload: &Value) -> String {
        let message = json!({ "eventType": "test.sent", "payload": payload });
        text(&self.client.post(&self.path("/msg"), &message).expect(202)["id"])
    }

    /// Sends messages to the servers of these clients in turn.
    #[track_caller]
    pub(crate) fn send_in_turn(&self, clients: [Client; 2], count: usize) -> Vec<String> {
        let servers = clients.map(|client| Application { client, id: self.id.clone() });
        (0..count).map(|number| servers[number % 2].send(&json!({ "number": number }))).collect()
    }

    #[track_caller]
    pub(crate) fn send_many(&self, count: usize) -> Vec<String> {
        (0..count).map(|number| self.send(&json!({ "number": number }))).collect()
    }

    /// Reads the delivery state of a message at an endpoint.
    #[track_caller]
    pub(crate) fn destination(&self, message: &str, endpoint: &Endpoint) -> Value {
        let destinations = self.client.list(&self.path(&format!("/msg/{message}/endpoint")));
        let found = destinations.into_iter().find(|found| found["id"] == endpoint.id);
        found.unwrap_or_else(|| panic!("{message} has no delivery to {}", endpoint.id))
    }

    /// Waits until a delivery has this status, and returns the destination.
    #[track_caller]
    pub(crate) fn wait_for(&self, message: &str, endpoint: &Endpoint, status: &str) -> Value {
        until(&format!("the delivery of {message} is {status}"), || {
            let destination = self.destination(message, endpoint);
            (destination["statusText"] == status).then_some(destination)
        })
    }

    /// Reads the attempts of a message, oldest first.
    #[track_caller]
    pub(crate) fn attempts(&self, message: &str) -> Vec<Value> {
        let mut attempts = self.client.list(&self.path(&format!("/attempt/msg/{message}")));
        attempts.reverse();
        attempts
    }

    /// Waits until a message has this many attempts, and returns them, oldest first.
    #[track_caller]
    pub(crate) fn wait_for_attempts(&self, message: &str, count: usize) -> Vec<Value> {
        until(&format!("{message} has {count} attempts"), || {
            let attempts = self.attempts(message);
            (attempts.len() >= count).then_some(attempts)
        })
    }

    #[track_caller]
    pub(crate) fn change(&self, endpoint: &Endpoint, fields: &Value) -> Value {
        self.client.patch(&self.path(&format!("/endpoint/{}", endpoint.id)), fields).expect(200)
    }
}

#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).to_owned()
}

/// A new API key that no server knows yet.
pub(crate) fn api_key() -> String {
    let random = Rng::new(rng::seed());
    ApiKey::generate(std::array::from_fn(|_| random.next() as u8)).expose().to_owned()
}
