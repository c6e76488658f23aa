//! Hints that an environment changed on this node, for pages that show it live.
//!
//! A hint has no content. Changes on other nodes cause no hint, so readers also poll. The cost of a change that nobody
//! watches is one relaxed load.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use everhook_core::id::EnvironmentId;
use tokio::sync::watch;

type Channels = BTreeMap<EnvironmentId, watch::Sender<()>>;

#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// The number of channels.
    watched: AtomicUsize,
    channels: Mutex<Channels>,
}

/// The hints of one environment. Hints that were not read yet become one.
#[derive(Debug)]
pub struct ActivityWatch(watch::Receiver<()>);

impl Activity {
    pub(crate) fn watch(&self, environment: EnvironmentId) -> ActivityWatch {
        let mut channels = self.lock();
        let receiver = channels.entry(environment).or_insert_with(|| watch::channel(()).0).subscribe();
        self.watched.store(channels.len(), Ordering::Relaxed);
        ActivityWatch(receiver)
    }

    /// Reports changes in these environments.
    pub(crate) fn changed(&self, environments: impl Iterator<Item = EnvironmentId>) {
        if self.watched.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut channels = self.lock();
        for environment in environments {
            // Without a receiver the send fails: the last watcher has gone.
            if channels.get(&environment).is_some_and(|sender| sender.send(()).is_err()) {
                channels.remove(&environment);
            }
        }
        self.watched.store(channels.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().expect("nothing panics while it holds this lock")
    }
}

impl ActivityWatch {
    /// Waits for a change since the last call.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The node is gone: there are no more changes.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_change_reaches_the_watchers_of_its_environment_once() {
        let activity = Activity::default();
        let (here, there) = (EnvironmentId(1), EnvironmentId(2));
        activity.changed([here].into_iter());
        let mut watch = activity.watch(here);
        assert!(watch.changed().now_or_never().is_none(), "changes before the watch give no hint");
        activity.changed([there].into_iter());
        assert!(watch.changed().now_or_never().is_none(), "another environment");
        activity.changed([here, there, here].into_iter());
        assert!(watch.changed().now_or_never().is_some());
        assert!(watch.changed().now_or_never().is_none(), "two hints became one");
        drop(watch);
        activity.changed([here].into_iter());
        assert!(activity.lock().is_empty(), "the channel of the last watcher is removed");
    }
}
