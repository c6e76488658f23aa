//! A temporary PostgreSQL cluster: started in a temporary folder, deleted with its owner.
//!
//! A small shell process, the guardian, owns the cluster. It waits on a pipe that only this process holds open, so the
//! cluster is stopped and deleted after any exit: normal, by an error, by Ctrl-C or by `kill -9`. The guardian has its
//! own process group, so that Ctrl-C does not stop the database under running tests.
//!
//! PostgreSQL refuses to run as root; the guardian then runs as `postgres` or `nobody`. The server keeps its default
//! durability settings, because Everhook refuses others. For tests, its files are in memory where there is room: each
//! test creates and drops a database, which syncs hundreds of files. No test stops this server; those that crash a
//! PostgreSQL start their own. Benchmarks measure commits to a disk.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::{env, fs, thread};

use anyhow::{Context, Result, bail};

use crate::debian::{self, Requirement};

/// Tests run in parallel, each with its own pools.
const CONNECTIONS_MAX: u32 = 200;

/// A file system in memory.
const MEMORY: &str = "/dev/shm";

/// A folder for temporary files that is on disk on every usual system.
const DISK: &str = "/var/tmp";

/// Free space that the cluster may need: a gigabyte of log, and the databases of tests that run side by side.
const MEMORY_BYTES_MIN: u64 = 4 << 30;

/// Another program may take the free port before PostgreSQL binds it.
const START_ATTEMPTS_MAX: u32 = 3;

const POSTGRESQL: Requirement = Requirement {
    what: "PostgreSQL",
    package: "postgresql",
    otherwise: "Or set EVERHOOK_TEST_DATABASE=postgres://… to a server whose user may create databases.",
};

/// Runs until its standard input ends, then removes every trace. `$1` folder, `$2` binaries, `$3` port, `$4`
/// connections.
const GUARDIAN: &str = r#"
folder=$1 bin=$2 port=$3 connections=$4
if "$bin/initdb" --pgdata="$folder/data" --username=everhook --auth=trust --encoding=UTF8 --locale=C --no-sync \
        </dev/null >"$folder/log" 2>&1 &&
    "$bin/pg_ctl" --pgdata="$folder/data" --log="$folder/log" --wait --timeout=60 --options="\
        -c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories='$folder' \
        -c max_connections=$connections" start </dev/null >>"$folder/log" 2>&1
then echo ready
else tail -n 20 "$folder/log"
fi
exec >/dev/null
read -r _
"$bin/pg_ctl" --pgdata="$folder/data" --mode=immediate --wait stop </dev/null >/dev/null 2>&1
rm -rf "$folder"
"#;

/// Start a temporary PostgreSQL, print its URL, and keep it until Ctrl-C.
///
/// The cluster lives in a temporary folder and is always deleted at the end. Use it for development:
///
///     export EVERHOOK_TEST_DATABASE=postgres://…   (the line this prints)
///     cargo nextest run -p everhook-postgres
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Also write the URL to this file, for scripts that wait for the database.
    #[arg(long, value_name = "FILE")]
    url_file: Option<PathBuf>,
    /// Keep the files on disk instead of in memory, for measurements.
    #[arg(long)]
    on_disk: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let cluster = Cluster::start(if arguments.on_disk { Files::OnDisk } else { Files::InMemory })?;
    if let Some(file) = &arguments.url_file {
        fs::write(file, cluster.url()).with_context(|| format!("could not write {}", file.display()))?;
    }
    println!("PostgreSQL is ready; Ctrl-C stops and deletes it.");
    println!("export EVERHOOK_TEST_DATABASE={}", cluster.url());
    loop {
        thread::park();
    }
}

/// The location of the files of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// In memory if there is enough of it.
    InMemory,
    /// On disk, where a sync costs what it costs in production. The usual folder for temporary files may be in memory.
    OnDisk,
}

/// A running cluster. Dropping it stops the server and deletes its folder.
pub(crate) struct Cluster {
    guardian: Child,
    /// Open for as long as the cluster is needed.
    leash: Option<ChildStdin>,
    url: String,
}

impl Cluster {
    /// Starts a new cluster. Installs PostgreSQL first if it is missing and can be installed.
    pub(crate) fn start(files: Files) -> Result<Self> {
        let bin = match find_binaries() {
            Some(bin) => bin,
            None => {
                debian::install(&POSTGRESQL)?;
                find_binaries().context("PostgreSQL was installed, but initdb and pg_ctl were not found")?
            }
        };
        let mut attempt = 1;
        loop {
            match Self::start_once(&bin, files) {
                Err(error) if attempt == START_ATTEMPTS_MAX => return Err(error),
                Err(_) => attempt += 1,
                started => return started,
            }
        }
    }

    /// The superuser's URL. Tests create their own databases on the same server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    fn start_once(bin: &Path, files: Files) -> Result<Self> {
        let account = Account::for_server()?;
        let folder = tempfile::Builder::new().prefix("everhook-pg-").tempdir_in(files.place());
        let folder = folder.context("could not create a folder")?;
        if let Some(Account { user, group }) = account {
            chown(folder.path(), Some(user), Some(group)).context("could not change the owner of the folder")?;
        }
        let port = free_port()?;
        let mut command = Command::new("sh");
        command
            .args(["-c", GUARDIAN, "everhook-pg-guardian"])
            .args([folder.path(), bin])
            .args([port.to_string(), CONNECTIONS_MAX.to_string()])
            .current_dir(folder.path())
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        if let Some(Account { user, group }) = account {
            command.uid(user).gid(group);
        }
        let mut guardian = command.spawn().context("could not start a shell for PostgreSQL")?;
        // From here on the guardian deletes the folder, even if this process cannot.
        let _ = folder.keep();
        let leash = guardian.stdin.take();
        let url = format!("postgres://everhook@127.0.0.1:{port}/postgres");
        let mut cluster = Self { guardian, leash, url };
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let stdout = self.guardian.stdout.take().context("the guardian of PostgreSQL has no output")?;
        let lines = BufReader::new(stdout).lines().collect::<Result<Vec<_>, _>>()?;
        if lines == ["ready"] {
            return Ok(());
        }
        bail!("PostgreSQL did not start:\n{}", lines.join("\n"));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.leash.take());
        let _ = self.guardian.wait();
    }
}

impl Files {
    fn place(self) -> PathBuf {
        let free = rustix::fs::statvfs(MEMORY).map_or(0, |system| system.f_bavail * system.f_frsize);
        match self {
            Files::InMemory if free >= MEMORY_BYTES_MIN => MEMORY.into(),
            Files::InMemory => env::temp_dir(),
            Files::OnDisk => DISK.into(),
        }
    }
}

/// The unprivileged account of the server if this process runs as root.
#[derive(Clone, Copy)]
struct Account {
    user: u32,
    group: u32,
}

impl Account {
    fn for_server() -> Result<Option<Self>> {
        if !debian::is_root()? {
            return Ok(None);
        }
        let accounts = fs::read_to_string("/etc/passwd").context("could not read the list of users")?;
        let account = ["postgres", "nobody"].iter().find_map(|name| Self::named(name, &accounts));
        Ok(Some(account.context("PostgreSQL refuses to run as root: add a user named postgres")?))
    }

    fn named(name: &str, accounts: &str) -> Option<Self> {
        let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2);
        Some(Self { user: numbers.next()?.parse().ok()?, group: numbers.next()?.parse().ok()? })
    }
}

/// Folder of the server's programs: from `pg_config`, else Debian's newest installed version.
fn find_binaries() -> Option<PathBuf> {
    let configured = Command::new("pg_config").arg("--bindir").stderr(Stdio::null()).output().ok();
    let configured = configured.and_then(|output| String::from_utf8(output.stdout).ok());
    let configured = configured.map(|folder| PathBuf::from(folder.trim()));

    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions.map(|version| version.path()).collect();
    versions.sort_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let installed = versions.into_iter().rev().map(|version| version.join("bin"));

    // `pg_config` also comes with the client library, so the server's programs are checked.
    configured.into_iter().chain(installed).find(|bin| bin.join("initdb").is_file() && bin.join("pg_ctl").is_file())
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("could not find a free port")?;
    Ok(listener.local_addr()?.port())
}
