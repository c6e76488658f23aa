//! Jobs on several replicas: limits, unique keys and schedules apply across all of them.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use everhook_testkit::wait;
use serde_json::{Value, json};

use crate::binary::client::{Client, text};
use crate::binary::server::{Backend, Server};

const REPLICAS: usize = 3;
const WORKERS_EACH: usize = 8;

fn replicas() -> Vec<Server> {
    let first = Server::start(&Backend::postgres(), &[]);
    let mut servers = vec![first];
    for _ in 1..REPLICAS {
        let another = servers[0].start_another();
        servers.push(another);
    }
    servers
}

/// Shared state of the workers.
#[derive(Default)]
struct Log {
    running: AtomicUsize,
    most: AtomicUsize,
    ended: AtomicUsize,
}

/// Leases and completes one job after the other until all are done.
fn work(client: &Client, log: &Log, jobs: usize) {
    let worker = client.post("/worker", &json!({"name": "w", "queues": ["limited"]})).expect(201);
    let id = text(&worker["id"]);
    while log.ended.load(Ordering::SeqCst) < jobs {
        let lease = json!({"limit": 1, "waitSeconds": 0.2});
        let leased = client.post(&format!("/worker/{id}/lease"), &lease).expect(200);
        for job in leased["data"].as_array().unwrap() {
            let now = log.running.fetch_add(1, Ordering::SeqCst) + 1;
            log.most.fetch_max(now, Ordering::SeqCst);
            thread::yield_now();
            // From here on the server may count the job as ended.
            log.running.fetch_sub(1, Ordering::SeqCst);
            let done = json!({"workerId": id, "epoch": job["epoch"]});
            client.post(&format!("/job/{}/complete", text(&job["id"])), &done).expect(200);
            log.ended.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn a_limit_of_three_holds_for_three_replicas_with_eight_workers_each() {
    const JOBS: usize = 60;
    let servers = replicas();
    let client = servers[0].client();
    client.patch("/queue/limited", &json!({"limit": 3})).expect(200);
    let jobs: Vec<Value> = (0..JOBS)
        .map(|n| json!({"queue": "limited", "kind": "k", "payload": {"n": n}, "concurrencyKey": (n % 5).to_string()}))
        .collect();
    client.post("/job/bulk", &json!({"jobs": jobs})).expect(202);
    let log = Log::default();
    thread::scope(|scope| {
        for server in &servers {
            for _ in 0..WORKERS_EACH {
                let (client, log) = (server.client(), &log);
                scope.spawn(move || work(&client, log, JOBS));
            }
        }
    });
    let most = log.most.load(Ordering::SeqCst);
    assert!((1..=3).contains(&most), "{most} at once");
    assert_eq!(log.ended.load(Ordering::SeqCst), JOBS);
    assert_eq!(client.list("/job?queue=limited&state=succeeded").len(), JOBS, "each was done, and done once");
}

#[test]
fn a_unique_key_on_three_replicas_at_once_is_one_job() {
    let servers = replicas();
    let job = json!({"queue": "q", "kind": "k", "uniqueKey": "u", "uniqueSeconds": 3600});
    let ids: Vec<String> = thread::scope(|scope| {
        let enqueue = |n: usize| {
            let (client, job) = (servers[n % REPLICAS].client(), &job);
            scope.spawn(move || text(&client.post("/job", job).json()["id"]))
        };
        let threads: Vec<_> = (0..16).map(enqueue).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 1, "{ids:?}");
    assert_eq!(servers[1].client().list("/job?queue=q").len(), 1);
}

#[test]
fn a_schedule_on_three_replicas_starts_each_time_once() {
    let servers = replicas();
    let client = servers[0].client();
    let schedule = json!({"name": "tick", "everySeconds": 1, "job": {"queue": "ticks", "kind": "k"}});
    client.post("/schedule", &schedule).expect(201);
    let jobs = wait::until("three runs", || {
        let jobs = client.list("/job?queue=ticks");
        (jobs.len() >= 3).then_some(jobs)
    });
    client.post("/schedule/tick/pause", &json!({})).expect(200);
    let shown = client.get("/schedule/tick").expect(200);
    let runs = shown["history"].as_array().unwrap();
    let times: BTreeSet<String> = runs.iter().map(|run| text(&run["nominalAt"])).collect();
    assert_eq!(times.len(), runs.len(), "a time was started twice: {runs:?}");
    assert!(runs.len() >= jobs.len());
}
