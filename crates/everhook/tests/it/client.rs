//! A plain HTTP client of the API. Every status and every broken connection reaches the test.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::wait::until;

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

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// Asserts the status and returns the body.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        if self.body.is_empty() { Value::Null } else { self.json() }
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
    pub(crate) fn patch(&self, path: &str, body: &Value) -> Reply {
        self.send("PATCH", path, &[], body.to_string().as_bytes()).expect("an answer")
    }

    /// Sends one request on its own connection. `Err` means no reply, whatever the server did.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Reply> {
        self.send_to(method, &format!("/api/v1{path}"), headers, body)
    }

    /// Sends one request to any path of the server.
    pub(crate) fn send_to(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Reply> {
        let address = self.address.get();
        let mut connection = TcpStream::connect(&address)?;
        connection.set_nodelay(true)?;
        connection.set_read_timeout(Some(READ_TIMEOUT))?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        if !self.key.is_empty() {
            head += &format!("authorization: Bearer {}\r\n", self.key);
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if method != "GET" {
            head += &format!("content-length: {}\r\n", body.len());
        }
        head += "\r\n";
        // A server may reply before it has read the whole request: the reply counts, not the broken pipe.
        let written = connection.write_all(&[head.as_bytes(), body].concat());
        let mut bytes = Vec::new();
        let read = connection.read_to_end(&mut bytes);
        match parse(&bytes) {
            Some(reply) => Ok(reply),
            None => Err(written.err().or(read.err()).unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())),
        }
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

/// Parses a complete reply; `None` if it is incomplete.
fn parse(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect::<Vec<_>>();
    let header = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let rest = &bytes[end + 4..];
    let body = match header("content-length") {
        Some(length) => rest.get(..length.parse().ok()?)?.to_vec(),
        None if header("transfer-encoding") == Some("chunked") => dechunk(rest)?,
        None => rest.to_vec(),
    };
    Some(Reply { status, headers, body })
}

fn dechunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(end + 2..end + 2 + size)?);
        rest = rest.get(end + 4 + size..)?;
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
