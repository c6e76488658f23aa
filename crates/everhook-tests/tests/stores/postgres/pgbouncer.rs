//! A pgbouncer in transaction mode in front of the tests' PostgreSQL, as a process that ends with its owner.

use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, thread};

use everhook_testkit::process::free_port;
use tempfile::TempDir;

/// A pooler that assigns a server connection for each transaction.
pub(crate) struct PgBouncer {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts a pooler in front of the server at `url`, for all its databases.
    pub(crate) fn start(url: &str) -> PgBouncer {
        let program = find_program();
        let folder = tempfile::Builder::new().prefix("everhook-pgbouncer-").tempdir().unwrap();
        let config: tokio_postgres::Config = url.parse().unwrap();
        let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else { panic!("a host is expected") };
        let (server_port, user) = (config.get_ports().first().copied().unwrap_or(5432), config.get_user().unwrap());
        let password = config.get_password().map(|password| String::from_utf8_lossy(password).into_owned());
        let password = password.map_or_else(String::new, |password| format!(" password='{password}'"));
        let port = free_port().unwrap();
        // The pooler has fewer server connections than clients, so that clients really share them.
        let settings = format!(
            "[databases]\n* = host={host} port={server_port} user={user}{password}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\nmax_client_conn = 200\ndefault_pool_size = 3\nlogfile = {folder}/log\n",
            folder = folder.path().display()
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new(program);
        command.arg("--quiet").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(account) = unprivileged(folder.path()) {
            for path in [folder.path(), &file] {
                chown(path, Some(account), None).unwrap();
            }
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
            command.uid(account);
        }
        let mut process = command.spawn().expect("pgbouncer starts");
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(ended) = process.try_wait().unwrap() {
                let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
                panic!("pgbouncer did not start: {ended}\n{log}");
            }
            thread::yield_now();
        }
        PgBouncer { process, port, _folder: folder }
    }

    /// The URL of the same database through the pooler.
    pub(crate) fn url(&self, url: &str) -> String {
        let (head, tail) = url.split_once('@').expect("the URL of the tests names a user");
        let database = tail.split_once('/').expect("the URL of the tests names a database").1;
        format!("{head}@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "`cargo xtask test` tells the tests where it is")]
fn find_program() -> PathBuf {
    let told = std::env::var_os("EVERHOOK_TEST_PGBOUNCER").map(PathBuf::from);
    let usual = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"].map(PathBuf::from);
    told.into_iter().chain(usual).find(|path| path.is_file()).expect(
        "pgbouncer is not installed: run `cargo xtask test`, which installs it, or `apt-get install pgbouncer`, \
         or set EVERHOOK_TEST_PGBOUNCER to where it is",
    )
}

/// Returns the account to run pgbouncer under if this process is root, because pgbouncer refuses to run as root.
fn unprivileged(ours: &Path) -> Option<u32> {
    if fs::metadata(ours).unwrap().uid() != 0 {
        return None;
    }
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let id = |name: &str| {
        let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
        line.split(':').nth(2)?.parse().ok()
    };
    Some(id("postgres").or_else(|| id("nobody")).expect("pgbouncer refuses to run as root: add a user postgres"))
}
