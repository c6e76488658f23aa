//! The command line.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use everhook_core::id::KeyId;

use crate::batch::BatchCommand;
use crate::config::{Config, Flags, Settings, StoreConfig};
use crate::job::JobCommand;
use crate::keys::Wanted;
use crate::outbox::OutboxCommand;
use crate::plain::plain;
use crate::queue::QueueCommand;
use crate::remote::Remote;
use crate::schedule::ScheduleCommand;
use crate::worker::WorkerCommand;
use crate::{keys, logging, nodes, once, serve, store};

/// Delivers webhooks durably: accepted means delivered, dead or cancelled, visibly.
///
/// Start with `everhook serve`: it needs nothing else, keeps its data in ./everhook-data, and shows a first API key with a
/// command to try (without a terminal the key goes to a file). On several machines, give every replica the same
/// `--database postgres://…`.
#[derive(Debug, Parser)]
#[command(name = "everhook", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(subcommand)]
    command: Command,
}

/// Where settings come from. Flags win over `EVERHOOK_*` variables, those over the file, that over the defaults.
#[derive(Debug, Args)]
struct SettingsArgs {
    /// Read settings from this TOML file (see `everhook config init`).
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keep everything in an embedded database in this folder [default: ./everhook-data].
    #[arg(long, global = true, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Keep everything in this PostgreSQL; any number of replicas may share it.
    #[arg(long, global = true, value_name = "URL", conflicts_with = "data")]
    database: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server: the API, and the deliveries.
    Serve {
        /// Listen on this address [default: 127.0.0.1:8071].
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: Option<String>,
        /// Serve health and metrics on this address, too, where clients of the API cannot crowd them out.
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen_ops: Option<String>,
        /// Accept and deliver, or one of both: all, api, worker [default: all].
        #[arg(long, value_name = "ROLE")]
        role: Option<String>,
    },
    /// Bring the database's schema up to date (`serve` does it by itself unless `auto_migrate = false`).
    Migrate,
    /// Create, list and revoke API keys. Works beside a running server.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Show the nodes of a running server (EVERHOOK_URL, EVERHOOK_KEY).
    #[command(subcommand)]
    Node(NodeCommand),
    /// Show and reset once-slots, of which each phase sends one message (EVERHOOK_URL, EVERHOOK_KEY).
    ///
    /// A message that is sent with `"once": {"key": "run-42"}` claims the slot run-42 of its application. The first one wins and is
    /// delivered; every other one is answered with the winner's message and not sent, until a higher phase is claimed or the
    /// slot is reset.
    #[command(subcommand)]
    Once(OnceCommand),
    /// Show and repair what waits in the outboxes of a running server (EVERHOOK_URL, EVERHOOK_KEY), and make new ones.
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Enqueue, find and steer jobs (EVERHOOK_URL, EVERHOOK_KEY).
    ///
    /// A job waits on a queue until a worker takes it: a program that asks the server for work, or a URL that the queue is pushed to.
    /// One that fails is tried again after a while; when its attempts are used up it is dead, and waits for `retry` or `redrive`.
    #[command(subcommand)]
    Job(JobCommand),
    /// Show queues, pause them, limit them, push them to a URL, delete them (EVERHOOK_URL, EVERHOOK_KEY).
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Show and mend sets of jobs whose outcome is announced (EVERHOOK_URL, EVERHOOK_KEY).
    #[command(subcommand)]
    Batch(BatchCommand),
    /// Start jobs or messages by the clock (EVERHOOK_URL, EVERHOOK_KEY).
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Show who takes jobs (EVERHOOK_URL, EVERHOOK_KEY).
    #[command(subcommand)]
    Worker(WorkerCommand),
    /// Print a settings template, or check and show the settings in force.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the OpenAPI document.
    #[command(hide = true)]
    Openapi,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Create a key and print it: the only time it is shown.
    Create {
        /// The environment it belongs to; made if new [default: default].
        #[arg(long, value_name = "NAME", conflicts_with = "admin")]
        environment: Option<String>,
        /// Let it do what spans environments.
        #[arg(long)]
        admin: bool,
    },
    /// Print a new key that no server knows yet, for EVERHOOK_BOOTSTRAP_KEY: an empty store takes it as its first key.
    Generate,
    /// List keys by their handles; the keys themselves are not kept.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Stop a key for ever, on every replica, within seconds.
    Revoke {
        /// The key's handle, as `everhook key list` shows it.
        id: String,
    },
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// List the nodes that share the store: role, version, last heartbeat, held tasks. Needs an admin key.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum OnceCommand {
    /// List the slots of an application: phase, winner, suppressed calls.
    List {
        /// The application's id or uid.
        application: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one slot.
    Show {
        /// The application's id or uid.
        application: String,
        /// The slot's key.
        key: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Open the next phase of a slot, so that the next message that claims it is sent. The slot and its history stay.
    Reset {
        /// The application's id or uid.
        application: String,
        /// The slot's key.
        key: String,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print a commented template.
    Init,
    /// Check the settings and say whether they can be used.
    Check,
    /// Show the settings in force and where each comes from; secrets are redacted.
    Show,
}

impl Cli {
    /// Does what was asked for.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let command = match self.command {
            Command::Openapi => {
                self.settings
                    .refuse(&["config", "data", "database"], "the document is the same whatever the settings")?;
                return print(&everhook_api::openapi());
            }
            Command::Config(ConfigCommand::Init) => {
                self.settings
                    .refuse(&["config", "data", "database"], "the template has every setting at its default")?;
                return print(Settings::TEMPLATE);
            }
            Command::Key(KeyCommand::Generate) => {
                self.settings.refuse(&["config", "data", "database"], "the key is kept nowhere")?;
                return print(&format!("{}\n", keys::generate().expose()));
            }
            // Somebody else's database, or a file: nothing of the settings is for it.
            Command::Outbox(command @ OutboxCommand::Install { .. }) => {
                self.settings.refuse(&["config", "data"], "name the outbox with --database or --sqlite")?;
                return print(&runtime()?.block_on(command.run(self.settings.database))?);
            }
            // What a running server is asked needs no settings of one.
            command if command.is_remote() => {
                let instead = "this command asks a running server: name it with EVERHOOK_URL and EVERHOOK_KEY";
                self.settings.refuse(&["config", "data", "database"], instead)?;
                return print(&runtime()?.block_on(command.ask())?);
            }
            command => command,
        };
        let (listen, listen_ops, role) = match &command {
            Command::Serve { listen, listen_ops, role } => (listen.clone(), listen_ops.clone(), role.clone()),
            _ => (None, None, None),
        };
        let flags = Flags { listen, listen_ops, role, data: self.settings.data, database: self.settings.database };
        let settings = Settings::load(self.settings.config.as_deref(), flags)?;
        let config = settings.check()?;
        let logs = logging::init(&config)?;
        settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        let runtime = runtime()?;
        match command {
            Command::Serve { .. } => runtime.block_on(serve::serve(config, &logs)),
            Command::Migrate => runtime.block_on(store::migrate(&config)),
            Command::Key(command) => runtime.block_on(run_key(command, &config)),
            Command::Config(ConfigCommand::Show) => print(&settings.show()),
            Command::Config(_) => print("configuration is valid\n"),
            Command::Outbox(command) => {
                let StoreConfig::Postgres { url, direct_url, .. } = config.store else {
                    anyhow::bail!("an embedded database has no outbox: say which PostgreSQL with --database");
                };
                print(&runtime.block_on(command.run(Some(direct_url.unwrap_or(url).0)))?)
            }
            Command::Openapi | Command::Node(_) | Command::Once(_) | Command::Worker(_) => Ok(()),
            Command::Job(_) | Command::Queue(_) | Command::Batch(_) | Command::Schedule(_) => Ok(()),
        }
    }
}

impl SettingsArgs {
    /// Refuses flags that would be without effect.
    fn refuse(&self, flags: &[&str], why: &str) -> anyhow::Result<()> {
        let given =
            [("config", self.config.is_some()), ("data", self.data.is_some()), ("database", self.database.is_some())];
        match given.into_iter().find(|(flag, is_given)| *is_given && flags.contains(flag)) {
            Some((flag, _)) => anyhow::bail!("--{flag} has no effect here: {why}"),
            None => Ok(()),
        }
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Runtime::new().context("could not start the runtime")
}

impl Command {
    /// Whether a running server does it.
    fn is_remote(&self) -> bool {
        match self {
            Command::Outbox(command) => !command.is_local(),
            Command::Node(_) | Command::Once(_) | Command::Job(_) | Command::Queue(_) => true,
            Command::Batch(_) | Command::Schedule(_) | Command::Worker(_) => true,
            Command::Serve { .. } | Command::Migrate | Command::Key(_) | Command::Config(_) | Command::Openapi => false,
        }
    }

    /// Has a running server do it; answers what to print.
    async fn ask(self) -> anyhow::Result<String> {
        let remote = &Remote::from_environment()?;
        match self {
            Command::Node(NodeCommand::List { json }) => nodes::list(remote, json).await,
            Command::Once(command) => run_once(command, remote).await,
            Command::Outbox(command) => command.ask(remote).await,
            Command::Job(command) => command.ask(remote).await,
            Command::Queue(command) => command.ask(remote).await,
            Command::Batch(command) => command.ask(remote).await,
            Command::Schedule(command) => command.ask(remote).await,
            Command::Worker(command) => command.ask(remote).await,
            Command::Serve { .. } | Command::Migrate | Command::Key(_) | Command::Config(_) | Command::Openapi => {
                Ok(String::new())
            }
        }
    }
}

async fn run_once(command: OnceCommand, remote: &Remote) -> anyhow::Result<String> {
    match command {
        OnceCommand::List { application, json } => once::list(remote, &application, json).await,
        OnceCommand::Show { application, key, json } => once::show(remote, &application, &key, json).await,
        OnceCommand::Reset { application, key } => once::reset(remote, &application, &key).await,
    }
}

async fn run_key(command: KeyCommand, config: &Config) -> anyhow::Result<()> {
    // What is wrong with the command is said before anything is opened.
    let task = match command {
        KeyCommand::Create { environment, admin } => KeyTask::Create(Wanted::new(environment, admin)?),
        KeyCommand::List { json } => KeyTask::List { json },
        KeyCommand::Revoke { id } => KeyTask::Revoke(keys::handle(&id)?),
        KeyCommand::Generate => return Ok(()),
    };
    let opened = store::open_beside(config).await?;
    let text = match task {
        KeyTask::Create(wanted) => {
            let key = keys::generate();
            keys::keep(&*opened.store, &opened.ids, &key, &wanted).await?;
            format!("{}\n", key.expose())
        }
        KeyTask::List { json } => keys::list(&*opened.store, json).await?,
        KeyTask::Revoke(id) => keys::revoke(&*opened.store, id).await?,
    };
    opened.close().await;
    note(&format!("data: {}", store::place(config)));
    print(&text)
}

/// A command about keys whose arguments are valid.
enum KeyTask {
    Create(Wanted),
    List { json: bool },
    Revoke(KeyId),
}

/// To stderr, for the person beside the program that reads stdout.
fn note(text: &str) {
    eprintln!("{}", plain(text));
}

/// To stdout, where other programs read it, and terminals show it. A closed pipe is theirs to close.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    match std::io::stdout().write_all(plain(text).as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("could not write to stdout"),
        _ => Ok(()),
    }
}
