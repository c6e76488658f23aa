//! Jobs over HTTP as producers, workers and operators use them: what the tests of that have in common.

use http::Method;
use serde_json::{Value, json};

use crate::api::world::{Answer, Call, World};

impl World {
    /// Enqueues a job of the kind `k` on the queue `q` with more members, and answers its id.
    pub(crate) async fn job(&self, more: Value) -> String {
        self.enqueue(&with(json!({ "queue": "q", "kind": "k" }), more)).await.created()
    }

    pub(crate) async fn enqueue(&self, body: &Value) -> Answer {
        self.post("/job", &body.to_string()).await
    }

    /// Registers a worker and answers its id.
    pub(crate) async fn worker(&self, more: Value) -> String {
        let body = with(json!({ "name": "w", "queues": ["q"] }), more);
        self.post("/worker", &body.to_string()).await.created()
    }

    /// Leases one job to a worker.
    pub(crate) async fn take(&self, worker: &str) -> Held {
        let answer = self.post(&format!("/worker/{worker}/lease"), "").await;
        let job = answer.json()["data"][0].clone();
        assert!(job.is_object(), "there is a job: {answer}");
        Held { worker: worker.to_owned(), id: job["id"].as_str().unwrap().to_owned(), job }
    }

    /// Sends one report of a worker about its job.
    pub(crate) async fn say(&self, held: &Held, what: &str, more: Value) -> Answer {
        let body = with(json!({ "workerId": held.worker, "epoch": held.job["epoch"] }), more);
        self.post(&format!("/job/{}/{what}", held.id), &body.to_string()).await
    }

    /// Makes a job that is dead, and answers its id.
    pub(crate) async fn dead_job(&self, more: Value, error: &str) -> String {
        let body = with(json!({ "maxAttempts": 1, "queue": "graves" }), more);
        let worker = self.worker(json!({ "queues": [body["queue"]] })).await;
        let id = self.job(body).await;
        let held = self.take(&worker).await;
        assert_eq!(held.id, id);
        let answer = self.say(&held, "fail", json!({ "error": error })).await;
        assert_eq!(answer.text("/state"), "dead");
        id
    }

    pub(crate) async fn state(&self, id: &str) -> String {
        self.get(&format!("/job/{id}")).await.text("/state")
    }

    /// The same request of the other environment.
    pub(crate) async fn elsewhere(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.call(Call::new(method, path).bearer(&self.other_key).body(body.to_string())).await
    }
}

/// A job that a worker has.
pub(crate) struct Held {
    pub(crate) worker: String,
    pub(crate) id: String,
    pub(crate) job: Value,
}

/// An object with more members, or with others.
pub(crate) fn with(mut object: Value, more: Value) -> Value {
    if let Value::Object(more) = more {
        object.as_object_mut().unwrap().extend(more);
    }
    object
}

/// The place and the rule of a 422.
#[track_caller]
pub(crate) fn broken(answer: &Answer) -> (String, String) {
    assert_eq!(answer.status, 422, "{answer}");
    let detail = answer.json()["detail"][0].clone();
    let place = detail["loc"].as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect::<Vec<_>>();
    (place.join("."), detail["msg"].as_str().unwrap().to_owned())
}
