//! The command line: arguments, and the commands they start.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use everhook_core::id::KeyId;
use everhook_core::token::TokenKeyChange;

use crate::batch::BatchCommand;
use crate::config::{Config, Flags, Settings, StoreConfig};
use crate::import::ImportCommand;
use crate::job::JobCommand;
use crate::keys::Wanted;
use crate::outbox::OutboxCommand;
use crate::plain::plain;
use crate::queue::QueueCommand;
use crate::remote::Remote;
use crate::schedule::ScheduleCommand;
use crate::worker::WorkerCommand;
use crate::{keys, logging, nodes, once, serve, store};

/// Delivers webhooks and runs jobs durably: accepted work ends as delivered, dead or cancelled, visibly.
///
/// Start with `everhook serve`. It needs no configuration, keeps its data in ./everhook-data, and shows a first API key
/// with a command to try. Without a terminal, the key is written to a file. On several machines, give every replica the
/// same `--database postgres://…`.
#[derive(Debug, Parser)]
#[command(name = "everhook", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(subcommand)]
    command: Command,
}

/// Sources of the configuration. Flags override `EVERHOOK_*` variables, which override the file, which overrides the
/// defaults.
#[derive(Debug, Args)]
struct SettingsArgs {
    /// Read the configuration from this TOML file (see `everhook config init`).
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Store everything in an embedded database in this folder [default: ./everhook-data].
    #[arg(long, global = true, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Store everything in this PostgreSQL database, which any number of replicas may share.
    #[arg(long, global = true, value_name = "URL", conflicts_with = "data")]
    database: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server: the API and the deliveries.
    Serve {
        /// Listen on this address [default: 127.0.0.1:8071].
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: Option<String>,
        /// Also serve health and metrics on this address, with connections that API clients cannot use up.
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen_ops: Option<String>,
        /// Begin links to this server with this URL, such as https://hooks.example.com (EVERHOOK_PUBLIC_URL)
        /// [default: http:// and the host of the request].
        #[arg(long, value_name = "URL")]
        public_url: Option<String>,
        /// Role of the node: all, api (accepts) or worker (delivers) [default: all].
        #[arg(long, value_name = "ROLE")]
        role: Option<String>,
    },
    /// Migrate the database schema (`serve` does so at start, unless `auto_migrate = false`).
    Migrate,
    /// Create, list and revoke API keys, also while a server runs.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Rotate the key that signs application tokens, also while a server runs.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Show the nodes of a running server (EVERHOOK_URL, EVERHOOK_KEY).
    #[command(subcommand)]
    Node(NodeCommand),
    /// Show and reset once-slots, which send one message per phase (EVERHOOK_URL, EVERHOOK_KEY).
    ///
    /// A message with `"once": {"key": "run-42"}` claims the slot run-42 of its application. The first message wins and
    /// is delivered. Later ones are not sent; the API returns the winner instead. A claim with a higher phase, or a
    /// reset, opens the slot again.
    #[command(subcommand)]
    Once(OnceCommand),
    /// Show and repair the outboxes of a running server (EVERHOOK_URL, EVERHOOK_KEY), and install new ones.
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Enqueue, list and change jobs (EVERHOOK_URL, EVERHOOK_KEY).
    ///
    /// A job waits on a queue until a worker leases it, or until the server pushes it to the queue's URL. A failed job
    /// is retried. When no attempts are left, the job is dead and waits for `retry` or `redrive`.
    #[command(subcommand)]
    Job(JobCommand),
    /// Show, pause, limit and delete queues, and set their push URLs (EVERHOOK_URL, EVERHOOK_KEY).
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Create, show and repair batches of jobs (EVERHOOK_URL, EVERHOOK_KEY).
    #[command(subcommand)]
    Batch(BatchCommand),
    /// Start jobs or messages on a schedule (EVERHOOK_URL, EVERHOOK_KEY).
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Show the workers of a running server (EVERHOOK_URL, EVERHOOK_KEY).
    #[command(subcommand)]
    Worker(WorkerCommand),
    /// Copy applications, endpoints and event types from another product, also while a server runs.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Print a configuration template, or check and show the current configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the OpenAPI document of the API.
    #[command(hide = true)]
    Openapi,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Create a key and print it. The key is shown only once.
    Create {
        /// Environment of the key, created if it does not exist [default: default].
        #[arg(long, value_name = "NAME", conflicts_with = "admin")]
        environment: Option<String>,
        /// Create an admin key, for routes that span environments.
        #[arg(long)]
        admin: bool,
    },
    /// Print a new key for EVERHOOK_BOOTSTRAP_KEY. An empty store accepts it as its first key.
    Generate,
    /// List the ids of all keys. The keys themselves are not stored.
    List {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key for ever. Every replica rejects it within seconds.
    Revoke {
        /// Id of the key, as `everhook key list` shows it.
        id: String,
    },
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Sign new application tokens with a new key. Tokens of the old key stay valid until they expire.
    RotateKey {
        /// End all application tokens of the server. Every replica rejects them within seconds.
        #[arg(long)]
        revoke: bool,
    },
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// List the nodes that share the store: role, version, last heartbeat, held tasks. Requires an admin key.
    List {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum OnceCommand {
    /// List the slots of an application: phase, winner, suppressed calls.
    List {
        /// Id or uid of the application.
        application: String,
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Show one slot of an application.
    Show {
        /// Id or uid of the application.
        application: String,
        /// Key of the slot, such as run-42.
        key: String,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Open the next phase of a slot: the next message that claims it is sent. The slot keeps its history.
    Reset {
        /// Id or uid of the application.
        application: String,
        /// Key of the slot, such as run-42.
        key: String,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print a template with every setting and its default.
    Init,
    /// Check whether the configuration is valid.
    Check,
    /// Show every setting with its source. Secrets are redacted.
    Show,
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let command = match self.command {
            Command::Openapi => {
                self.settings
                    .refuse(&["config", "data", "database"], "the document does not depend on the configuration")?;
                return print(&everhook_api::openapi());
            }
            Command::Config(ConfigCommand::Init) => {
                self.settings.refuse(&["config", "data", "database"], "the template contains the defaults")?;
                return print(Settings::TEMPLATE);
            }
            Command::Key(KeyCommand::Generate) => {
                self.settings.refuse(&["config", "data", "database"], "the key is printed and not stored")?;
                return print(&format!("{}\n", keys::generate().expose()));
            }
            // `install` works on a customer's database or file, so Everhook's own configuration does not apply.
            Command::Outbox(command @ OutboxCommand::Install { .. }) => {
                self.settings.refuse(&["config", "data"], "choose the outbox with --database or --sqlite")?;
                return print(&runtime()?.block_on(command.run(self.settings.database))?);
            }
            // Commands that talk to a running server need no configuration of their own.
            command if command.is_remote() => {
                let instead = "this command talks to a running server: set EVERHOOK_URL and EVERHOOK_KEY";
                self.settings.refuse(&["config", "data", "database"], instead)?;
                return print(&runtime()?.block_on(command.ask())?);
            }
            command => command,
        };
        let flags = command.flags(self.settings.data, self.settings.database);
        let settings = Settings::load(self.settings.config.as_deref(), flags)?;
        let config = settings.check()?;
        let logs = logging::init(&config)?;
        settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        let runtime = runtime()?;
        match command {
            Command::Serve { .. } => runtime.block_on(serve::serve(config, &logs)),
            Command::Migrate => runtime.block_on(store::migrate(&config)),
            Command::Key(command) => runtime.block_on(run_key(command, &config)),
            Command::Token(TokenCommand::RotateKey { revoke }) => runtime.block_on(rotate_key(revoke, &config)),
            Command::Import(command) => runtime.block_on(command.run(&config)),
            Command::Config(ConfigCommand::Show) => print(&settings.show()),
            Command::Config(_) => print("configuration is valid\n"),
            Command::Outbox(command) => {
                let StoreConfig::Postgres { url, direct_url, .. } = config.store else {
                    anyhow::bail!("an embedded database has no outbox: set --database to a PostgreSQL URL");
                };
                print(&runtime.block_on(command.run(Some(direct_url.unwrap_or(url).0)))?)
            }
            Command::Openapi | Command::Node(_) | Command::Once(_) | Command::Worker(_) => Ok(()),
            Command::Job(_) | Command::Queue(_) | Command::Batch(_) | Command::Schedule(_) => Ok(()),
        }
    }
}

impl SettingsArgs {
    /// Refuses flags that would have no effect.
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
    /// Returns the flags that set values of the configuration.
    fn flags(&self, data: Option<PathBuf>, database: Option<String>) -> Flags {
        let flags = Flags { data, database, ..Flags::default() };
        match self {
            Command::Serve { listen, listen_ops, public_url, role } => Flags {
                listen: listen.clone(),
                listen_ops: listen_ops.clone(),
                public_url: public_url.clone(),
                role: role.clone(),
                ..flags
            },
            _ => flags,
        }
    }

    /// Whether the command talks to a running server.
    fn is_remote(&self) -> bool {
        match self {
            Command::Outbox(command) => !command.is_local(),
            Command::Node(_) | Command::Once(_) | Command::Job(_) | Command::Queue(_) => true,
            Command::Batch(_) | Command::Schedule(_) | Command::Worker(_) => true,
            Command::Serve { .. } | Command::Migrate | Command::Key(_) | Command::Token(_) => false,
            Command::Import(_) | Command::Config(_) | Command::Openapi => false,
        }
    }

    /// Sends the command to a running server and returns the text to print.
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
            Command::Serve { .. } | Command::Migrate | Command::Key(_) | Command::Token(_) => Ok(String::new()),
            Command::Import(_) | Command::Config(_) | Command::Openapi => Ok(String::new()),
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
    // Invalid arguments are reported before the store is opened.
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

async fn rotate_key(revoke: bool, config: &Config) -> anyhow::Result<()> {
    let opened = store::open_beside(config).await?;
    let change = if revoke { TokenKeyChange::Revoke } else { TokenKeyChange::Rotate };
    let text = keys::rotate_token_key(&*opened.store, &opened.ids, change).await?;
    opened.close().await;
    note(&format!("data: {}", store::place(config)));
    print(&text)
}

/// A key command with valid arguments.
enum KeyTask {
    Create(Wanted),
    List { json: bool },
    Revoke(KeyId),
}

/// Writes to stderr: a hint for people, while programs read stdout.
pub(crate) fn note(text: &str) {
    eprintln!("{}", plain(text));
}

/// Writes to stdout. A closed pipe is no error: its reader may stop at any time.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    match std::io::stdout().write_all(plain(text).as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("could not write to stdout"),
        _ => Ok(()),
    }
}
