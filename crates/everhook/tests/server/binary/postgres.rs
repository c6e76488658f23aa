//! PostgreSQL for the tests: a new database on the given server, or a separate cluster that a test may stop.

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::{fs, io, iter};

use everhook_testkit::process::free_port;
use everhook_testkit::rng;
use tokio_postgres::NoTls;

use crate::binary::environment;

/// A database that is dropped with its owner.
pub(crate) struct Database {
    admin: String,
    name: String,
    pub(crate) url: String,
}

impl Database {
    /// Creates a database on the server of `EVERHOOK_TEST_DATABASE`.
    pub(crate) fn create() -> Database {
        let admin = environment::variable("EVERHOOK_TEST_DATABASE").expect(
            "EVERHOOK_TEST_DATABASE is not set: run the tests with `cargo xtask test`, \
             or keep a database with `cargo xtask pg` and set the variable it prints",
        );
        Database::create_in(&admin)
    }

    /// Creates a database on the server at `admin`, whose user may create databases.
    pub(crate) fn create_in(admin: &str) -> Database {
        let name = format!("everhook_it_{:016x}", rng::seed());
        execute(admin, &format!("create database {name}")).expect("the test user may create databases");
        Database { admin: admin.to_owned(), url: with_database(admin, &name), name }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The server may already be stopped; then the whole cluster is deleted.
        let _ = execute(&self.admin, &format!("drop database if exists {} with (force)", self.name));
    }
}

fn with_database(url: &str, name: &str) -> String {
    let (base, parameters) = url.split_once('?').map_or((url, ""), |(base, parameters)| (base, parameters));
    let (server, _) = base.rsplit_once('/').expect("the URL names a database");
    let mark = if parameters.is_empty() { "" } else { "?" };
    format!("{server}/{name}{mark}{parameters}")
}

pub(crate) fn execute(url: &str, statement: &str) -> Result<(), tokio_postgres::Error> {
    block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::select! {
            done = client.batch_execute(statement) => done,
            lost = connection => lost,
        }
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Address of the test server, for a proxy in front of it.
pub(crate) fn host_and_port(url: &str) -> String {
    let authority = url.split_once("://").expect("a URL").1.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.contains(':') { host.to_owned() } else { format!("{host}:5432") }
}

/// A cluster of one test, deleted at the end. A shell process, the guardian, owns it and obeys the lines it reads. When
/// its input ends, even because this process crashed, the guardian removes every trace.
pub(crate) struct Cluster {
    guardian: Child,
    orders: Option<ChildStdin>,
    answers: Box<dyn BufRead + Send>,
    pub(crate) url: String,
}

/// `$1` folder, `$2` programs, `$3` port. Answers every command with one line.
const GUARDIAN: &str = r#"
folder=$1 bin=$2 port=$3
control() { "$bin/pg_ctl" --pgdata="$folder/data" --log="$folder/log" --wait --timeout=60 "$@" </dev/null >/dev/null 2>&1; }
begin() {
    control --options="-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories='$folder'" start
}
"$bin/initdb" --pgdata="$folder/data" --username=everhook --auth=trust --encoding=UTF8 --locale=C --no-sync \
    </dev/null >"$folder/log" 2>&1 && begin && echo ready || echo failed
while read -r order; do
    case $order in
    stop) control --mode=immediate stop ;;
    start) begin ;;
    esac && echo done || echo failed
done
control --mode=immediate stop
rm -rf "$folder"
"#;

impl Cluster {
    /// Starts a cluster; `None` if the server's programs are not installed.
    pub(crate) fn start() -> Option<Cluster> {
        let bin = find_programs()?;
        let folder = tempfile::Builder::new().prefix("everhook-it-pg-").tempdir().unwrap();
        let port = free_port().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", GUARDIAN, "everhook-it-pg-guardian"])
            .args([folder.path(), &bin])
            .arg(port.to_string())
            .current_dir(folder.path())
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        if let Some((user, group)) = unprivileged(folder.path()) {
            chown(folder.path(), Some(user), Some(group)).unwrap();
            command.uid(user).gid(group);
        }
        let mut guardian = command.spawn().expect("a shell");
        // From here on the guardian deletes the folder, even if this process cannot.
        let _ = folder.keep();
        let orders = guardian.stdin.take();
        let answers = Box::new(BufReader::new(guardian.stdout.take().unwrap()));
        let url = format!("postgres://everhook@127.0.0.1:{port}/postgres");
        let mut cluster = Cluster { guardian, orders, answers, url };
        assert_eq!(cluster.answer(), "ready", "the test's own PostgreSQL did not start");
        Some(cluster)
    }

    /// Stops the server as a crash would.
    pub(crate) fn stop(&mut self) {
        self.order("stop");
    }

    /// Restarts the server, which recovers the committed data.
    pub(crate) fn start_again(&mut self) {
        self.order("start");
    }

    fn order(&mut self, order: &str) {
        use io::Write;
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
        assert_eq!(self.answer(), "done", "PostgreSQL did not {order}");
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.guardian.wait();
    }
}

/// PostgreSQL refuses to run as root. Returns the account to use instead.
fn unprivileged(ours: &Path) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    if fs::metadata(ours).unwrap().uid() != 0 {
        return None;
    }
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let named = |name: &str| {
        let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2);
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    };
    Some(named("postgres").or_else(|| named("nobody")).expect("PostgreSQL refuses to run as root: add a user postgres"))
}

/// Folder of the server's programs: from `pg_config`, else Debian's newest installed version.
fn find_programs() -> Option<PathBuf> {
    let configured = Command::new("pg_config").arg("--bindir").stderr(Stdio::null()).output().ok();
    let configured = configured.and_then(|output| String::from_utf8(output.stdout).ok());
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions = versions.map(|version| version.path()).collect::<Vec<_>>();
    versions.sort_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let installed = versions.into_iter().rev().map(|version| version.join("bin"));
    iter::once(PathBuf::from(configured.unwrap_or_default().trim()))
        .chain(installed)
        .find(|bin| bin.join("initdb").is_file() && bin.join("pg_ctl").is_file())
}

/// A connection of the test, as a customer's program has one.
pub(crate) struct Session {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
}

impl Session {
    #[track_caller]
    #[expect(clippy::disallowed_methods, reason = "it ends with its client")]
    pub(crate) fn connect(url: &str) -> Session {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        });
        Session { runtime, client }
    }

    /// Runs statements. Returns the server's error text.
    pub(crate) fn try_run(&self, statements: &str) -> Result<(), String> {
        let done = self.runtime.block_on(self.client.batch_execute(statements));
        done.map_err(|error| error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned()))
    }

    #[track_caller]
    pub(crate) fn run(&self, statements: &str) {
        self.try_run(statements).unwrap_or_else(|error| panic!("{statements}: {error}"));
    }

    /// Returns the first column of all rows, as text.
    #[track_caller]
    pub(crate) fn column(&self, statement: &str) -> Vec<String> {
        let answers = self.runtime.block_on(self.client.simple_query(statement)).unwrap();
        let row = |answer: &tokio_postgres::SimpleQueryMessage| match answer {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        };
        answers.iter().filter_map(row).collect()
    }
}
