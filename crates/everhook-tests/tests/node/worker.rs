//! A worker and a client on an embedded store, as a customer's program uses them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use everhook_worker::{
    Backoff, Client, Context, EnqueueError, Enqueued, JobError, RetryPolicy, RunAt, StartError, Store, Unique, Worker,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

#[derive(Serialize, Deserialize)]
struct Email {
    to: String,
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::sqlite(folder.path()).unwrap();
    (folder, store)
}

fn email(to: &str) -> Email {
    Email { to: to.to_owned() }
}

#[tokio::test]
async fn typed_handlers_run_what_a_client_enqueues_and_say_what_is_next() {
    let (_folder, store) = store();
    let client = Client::new(&store, "default").await.unwrap();
    let (seen, mut calls) = mpsc::unbounded_channel();
    let failures = Arc::new(Mutex::new(vec![
        JobError::Snooze(Duration::from_millis(1)),
        JobError::retry_after(Duration::from_millis(1), "busy"),
        JobError::from(std::io::Error::other("no route")),
    ]));
    let send = move |email: Email, context: Context| {
        let (seen, failures) = (seen.clone(), Arc::clone(&failures));
        async move {
            seen.send((email.to.clone(), context.attempt())).unwrap();
            if email.to == "nobody" {
                return Err(JobError::cancel("this is no address"));
            }
            let next = failures.lock().unwrap().pop();
            next.map_or(Ok(email.to.len()), Err)
        }
    };
    let worker = Worker::new(store).register("email.send", send).concurrency("email", 1).grace(Duration::ZERO);
    let stop = worker.stop_handle();
    let mut job = client.job("email", "email.send", &email("a@example.com")).unwrap();
    let backoff = Backoff::List(vec![Duration::from_millis(1)]);
    job.job.retry = RetryPolicy::with(backoff, 3).unwrap();
    client.enqueue(job).await.unwrap();
    client.enqueue(client.job("email", "email.send", &email("nobody")).unwrap()).await.unwrap();
    let watch = async {
        let (mut attempts, mut cancelled) = (Vec::new(), 0);
        while attempts.len() < 4 || cancelled < 1 {
            match calls.recv().await.unwrap() {
                (to, _) if to == "nobody" => cancelled += 1,
                (_, attempt) => attempts.push(attempt),
            }
        }
        stop.stop();
        (attempts, cancelled)
    };
    let (ran, (attempts, cancelled)) = tokio::join!(worker.run(), watch);
    ran.unwrap();
    assert_eq!((attempts, cancelled), (vec![1, 2, 3, 3], 1), "a snooze uses no attempt");
}

#[tokio::test]
async fn many_jobs_are_answered_in_order_and_a_unique_one_is_accepted_once() {
    let (_folder, store) = store();
    let client = Client::new(&store, "default").await.unwrap();
    let mut jobs: Vec<_> = (0..2500).map(|n| client.job("bulk", "count", &n).unwrap()).collect();
    let unique = Some(Unique { key: "one".to_owned(), window: Duration::from_secs(60) });
    jobs[7].job.unique = unique.clone();
    let first = jobs[7].job.id;
    let last = jobs.len() - 1;
    jobs[last].job.unique = unique;
    let enqueued = client.enqueue_all(jobs).await.unwrap();
    assert_eq!(enqueued.len(), 2500);
    assert_eq!(enqueued[last], Enqueued::Existing(first));
    assert_eq!(enqueued.iter().filter(|it| matches!(it, Enqueued::Accepted { .. })).count(), 2499);
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_anything_is_written() {
    let (_folder, store) = store();
    assert!(matches!(Client::new(&store, "elsewhere").await, Err(EnqueueError::NoEnvironment(_))));
    let client = Client::new(&store, "default").await.unwrap();
    assert!(matches!(client.job("", "kind", &0), Err(EnqueueError::Name { .. })));
    let mut job = client.job("queue", "kind", &0).unwrap();
    job.run_at = RunAt::In(Duration::MAX);
    assert!(matches!(client.enqueue(job).await, Err(EnqueueError::Bad(_))));
    let idle = Worker::new(store.clone()).concurrency("queue", 1);
    assert!(matches!(idle.run().await, Err(StartError::Nothing)));
    let none = Worker::new(store).register("kind", |_: u8, _| async { Ok(()) }).concurrency("queue", 0);
    assert!(matches!(none.run().await, Err(StartError::NoRoom(_))));
}
