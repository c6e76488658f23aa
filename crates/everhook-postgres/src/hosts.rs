//! Several hosts in one URL. One of them is the primary, and that may change.
//!
//! Hosts are tried one after the other, starting with the one that worked last. The driver can do this too, but it
//! waits for an unresponsive host until the connect timeout.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Connection, Error, Socket};

use crate::connection::CONNECT_WAIT;
use crate::tls::{MakeTls, Stream};

/// The time for one host before the next one is tried.
const HOST_WAIT: Duration = Duration::from_secs(2);

/// Returns the most time that opening a connection may take, over all hosts.
pub(crate) fn connect_wait(config: &Config) -> Duration {
    let others = u32::try_from(count(config).saturating_sub(1)).unwrap_or(u32::MAX);
    CONNECT_WAIT.saturating_add(HOST_WAIT.saturating_mul(others))
}

/// Several hosts are one writable server and its standbys, so the connection must be writable.
pub(crate) fn want_primary(config: &mut Config) {
    if count(config) > 1 {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
}

/// Remembers the host that worked last.
#[derive(Default)]
pub(crate) struct Hosts {
    last: AtomicUsize,
}

impl Hosts {
    /// Connects to the first host that accepts. The last host gets the full connect timeout.
    pub(crate) async fn connect(
        &self,
        config: &Config,
        tls: &MakeTls,
    ) -> Result<(Client, Connection<Socket, Stream>), Error> {
        let (count, first) = (count(config), self.last.load(Ordering::Relaxed));
        for turn in 0..count.saturating_sub(1) {
            let index = (first + turn) % count;
            let host = only(config, index);
            if let Ok(Ok(opened)) = timeout(HOST_WAIT, host.connect(tls.clone())).await {
                self.last.store(index, Ordering::Relaxed);
                return Ok(opened);
            }
        }
        let index = (first + count - 1) % count;
        let opened = only(config, index).connect(tls.clone()).await?;
        self.last.store(index, Ordering::Relaxed);
        Ok(opened)
    }
}

fn count(config: &Config) -> usize {
    config.get_hosts().len().max(config.get_hostaddrs().len()).max(1)
}

/// Returns the settings for one of the hosts.
fn only(config: &Config, index: usize) -> Config {
    let mut one = Config::new();
    match config.get_hosts().get(index) {
        Some(Host::Tcp(host)) => drop(one.host(host)),
        #[cfg(unix)]
        Some(Host::Unix(path)) => drop(one.host_path(path)),
        None => {}
    }
    if let Some(address) = config.get_hostaddrs().get(index) {
        one.hostaddr(*address);
    }
    if let Some(port) = config.get_ports().get(index).or(config.get_ports().first()) {
        one.port(*port);
    }
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(name) = config.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    if let Some(wait) = config.get_connect_timeout() {
        one.connect_timeout(*wait);
    }
    if let Some(wait) = config.get_tcp_user_timeout() {
        one.tcp_user_timeout(*wait);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.keepalives(config.get_keepalives()).keepalives_idle(config.get_keepalives_idle());
    one.ssl_mode(config.get_ssl_mode()).ssl_negotiation(config.get_ssl_negotiation());
    one.channel_binding(config.get_channel_binding()).target_session_attrs(config.get_target_session_attrs());
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{Route, settings};

    #[test]
    fn each_host_gets_all_of_the_settings() {
        let url = |hosts: &str| {
            format!(
                "postgres://me:secret@{hosts}/db?sslmode=disable&options=-c%20geqo%3Doff&application_name=x\
                 &channel_binding=disable&connect_timeout=7&target_session_attrs=read-write"
            )
        };
        let both = settings(&url("a:1,b:2"), Route::Direct).unwrap();
        for (index, host) in ["a:1", "b:2"].into_iter().enumerate() {
            assert_eq!(only(&both, index), settings(&url(host), Route::Direct).unwrap());
        }
        assert_eq!(only(&both, 0).get_password(), Some(b"secret".as_slice()));
    }

    #[test]
    fn several_hosts_mean_the_one_that_can_be_written_to() {
        let wants = |url| settings(url, Route::Pooler).unwrap().get_target_session_attrs();
        assert_eq!(wants("postgres://a,b/db"), TargetSessionAttrs::ReadWrite);
        assert_eq!(wants("postgres://a/db"), TargetSessionAttrs::Any);
    }

    #[test]
    fn more_hosts_are_given_more_time() {
        let wait = |url| connect_wait(&settings(url, Route::Direct).unwrap());
        assert_eq!(wait("postgres://a/db"), CONNECT_WAIT);
        assert_eq!(wait("postgres://a,b,c/db"), CONNECT_WAIT + 2 * HOST_WAIT);
    }
}
