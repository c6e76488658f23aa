//! The command line: arguments, and the commands they start.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use everhook_core::token::TokenKeyChange;
use everhook_sqlite::Existing;

use crate::cli::client::ClientCommand;
use crate::config::{Config, Flags, Settings, reference_page};
use crate::confirm::Consent;
use crate::context::ContextCommand;
use crate::copy::CopyArgs;
use crate::doctor::DoctorArgs;
use crate::egress::EgressCommand;
use crate::import::ImportCommand;
use crate::key_command::KeyCommand;
use crate::listen::ListenArgs;
use crate::operator::OperatorArgs;
use crate::output::{FormatArgs, write_out};
use crate::plain::plain;
use crate::secrets::SecretsCommand;
use crate::serve::Announce;
use crate::verify::VerifyArgs;
use crate::{backup, exit, keys, logging, metrics_reference, serve, store};

pub(crate) mod client;

/// Delivers webhooks and runs jobs durably: accepted work ends as delivered, dead or cancelled, visibly.
///
/// Start with `everhook serve`. It needs no configuration, keeps its data in ./everhook-data, and shows a first API key
/// with a command to try. Without a terminal, the key is written to a file. On several machines, give every replica the
/// same `--database postgres://…`.
///
/// Other commands talk to a running server. Choose it with --url and --key, with EVERHOOK_URL and EVERHOOK_KEY, or
/// store it with `everhook context add`.
#[derive(Debug, Parser)]
#[command(name = "everhook", version, max_term_width = 100, after_long_help = exit::HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Sources of the configuration. Flags override `EVERHOOK_*` variables, which override the file, which overrides the
/// defaults.
#[derive(Debug, Default, Args)]
pub(crate) struct SettingsArgs {
    /// Read the configuration from this TOML file (see `everhook config init`).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Store everything in an embedded database in this folder [default: ./everhook-data].
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Store everything in this PostgreSQL database, which any number of replicas may share.
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    database: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server: the API and the deliveries.
    Serve {
        #[command(flatten)]
        settings: SettingsArgs,
        /// Listen on this address [default: 127.0.0.1:8071].
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: Option<String>,
        /// Also serve health and metrics on this address, with connections that API clients cannot use up.
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen_ops: Option<String>,
        /// Begin links to this server with this URL, such as https://hooks.example.com (EVERHOOK_PUBLIC_URL)
        /// [default: the host of the request].
        #[arg(long, value_name = "URL")]
        public_url: Option<String>,
        /// Role of the node: all, api (accepts) or worker (delivers) [default: all].
        #[arg(long, value_name = "ROLE")]
        role: Option<String>,
    },
    /// Migrate the database schema (`serve` does so at start, unless `auto_migrate = false`).
    Migrate {
        #[command(flatten)]
        settings: SettingsArgs,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Check the configuration and the machine, and say what to do about each problem.
    ///
    /// Checks the settings, the store with its schema and durability, the clock, the disk, the egress rules, the keys,
    /// the limit of open files and the ports. Changes nothing, and may run beside a server.
    #[command(after_help = "The exit code is 0 if no check failed, also with warnings, and 1 if one failed.")]
    Doctor(DoctorArgs),
    /// Copy the embedded database to a new file, also while a server runs.
    #[command(after_help = "Example:
  everhook backup --data /var/lib/everhook /backup/everhook-$(date +%F).db

The key file of the store is copied to the same name with the ending .keys. Keep it apart from the backup: the secrets in
the backup can be read with it, and not without it.

A restored copy sends nothing until `everhook egress resume`. For PostgreSQL, use pg_dump or pg_basebackup.")]
    Backup {
        #[command(flatten)]
        settings: SettingsArgs,
        /// Name of the new file.
        file: PathBuf,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Put a backup into the data folder. No server may use the folder.
    #[command(after_help = "Example:
  everhook restore --data /var/lib/everhook /backup/everhook-2026-05-04.db

The key file beside the backup, with the ending .keys, is restored, too.

The restored store accepts messages and sends nothing until `everhook egress resume`.")]
    Restore {
        #[command(flatten)]
        settings: SettingsArgs,
        /// File that `everhook backup` has written.
        file: PathBuf,
        /// Move a store that is in the folder to a subfolder, instead of refusing to restore.
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Copy everything from the embedded store to PostgreSQL. No server may run meanwhile.
    #[command(after_help = "Example:
  everhook copy --from sqlite:///var/lib/everhook --to postgres://everhook:password@db/everhook

The target must be empty. All rows are copied in one transaction and counted. Afterwards the egress of the source is
paused, so that a server that is started on it by mistake sends nothing.")]
    Copy(CopyArgs),
    /// Pause and resume all deliveries, pushes and outboxes, on every replica.
    #[command(subcommand)]
    Egress(EgressCommand),
    /// Create, list and revoke API keys, also while a server runs.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Rotate the key that signs application tokens, also while a server runs.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Make and rotate the keys that seal secrets in the database, also while a server runs.
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Copy applications, endpoints and event types from another product, also while a server runs.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Print a configuration template, or check and show the current configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Receive webhooks on this machine, verify and show them, and forward them to a local program.
    #[command(after_help = "Examples:
  everhook listen --demo                                   see a first webhook arrive, with nothing to set up
  everhook listen --port 9000 --secret whsec_…             verify the signature of every request
  everhook listen --forward http://127.0.0.1:3000/hooks    show requests on their way to your program")]
    Listen(ListenArgs),
    /// Check the signature of a received request, and say what is wrong with it.
    #[command(after_help = "Example:
  everhook verify --secret whsec_… -H 'webhook-id: msg_2d…' -H 'webhook-timestamp: 1777896000' \\
    -H 'webhook-signature: v1,…' --file body.json

The exit code is 0 for a genuine request and 1 for any other.")]
    Verify(VerifyArgs),
    /// Name servers with their keys, to use them with --context.
    Context {
        #[command(flatten)]
        format: FormatArgs,
        #[command(subcommand)]
        command: ContextCommand,
    },
    #[command(flatten)]
    Client(ClientCommand),
    /// Print the completions of a shell.
    #[command(after_help = "Examples:
  everhook completions bash > /etc/bash_completion.d/everhook
  everhook completions zsh > ~/.zfunc/_everhook
  everhook completions fish > ~/.config/fish/completions/everhook.fish")]
    Completions {
        /// Shell to complete commands in.
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands to a folder.
    #[command(after_help = "Examples:
  everhook man | man -l -
  everhook man --folder /usr/local/share/man/man1")]
    Man {
        /// Write one page per command to this folder.
        #[arg(long, value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
    /// Print the OpenAPI document of the API.
    #[command(hide = true)]
    Openapi,
    /// Print the reference of metrics.
    #[command(hide = true)]
    MetricsReference,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Sign new application tokens with a new key. Tokens of the old key stay valid until they expire.
    RotateKey {
        #[command(flatten)]
        settings: SettingsArgs,
        /// End all application tokens of the server. Every replica rejects them within seconds.
        #[arg(long)]
        revoke: bool,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print a template with every setting and its default.
    Init,
    /// Print the reference of all settings as Markdown.
    #[command(hide = true)]
    Reference,
    /// Check whether the configuration is valid.
    Check {
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Show every setting with its source. Secrets are redacted.
    Show {
        #[command(flatten)]
        settings: SettingsArgs,
    },
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Serve { settings, listen, listen_ops, public_url, role } => {
                let flags = Flags { listen, listen_ops, public_url, role, ..Flags::default() };
                let (config, logs) = settings.start(flags)?;
                runtime()?.block_on(serve::serve(config, &logs, Announce::Print))
            }
            Command::Migrate { settings, operator } => {
                let (config, _logs) = settings.start(Flags::default())?;
                runtime()?.block_on(store::migrate(&config, operator.operator()?))
            }
            Command::Doctor(doctor) => runtime()?.block_on(doctor.run()),
            Command::Backup { settings, file, operator } => {
                let (config, _logs) = settings.start(Flags::default())?;
                runtime()?.block_on(backup::back_up(&config, &file, operator.operator()?))
            }
            Command::Restore { settings, file, replace, consent, operator } => {
                let (config, _logs) = settings.start(Flags::default())?;
                let existing = if replace { Existing::MoveAside } else { Existing::Refuse };
                runtime()?.block_on(backup::restore(&config, &file, existing, consent, operator.operator()?))
            }
            Command::Copy(copy) => runtime()?.block_on(copy.run())?.print(copy.format.format()),
            Command::Egress(command) => command.run(),
            Command::Key(command) => command.run(),
            Command::Token(command) => command.run(),
            Command::Secrets(command) => command.run(),
            Command::Import(ImportCommand::Svix(mut import)) => {
                let (config, _logs) = std::mem::take(&mut import.settings).start(Flags::default())?;
                runtime()?.block_on(import.run(&config))
            }
            Command::Config(command) => command.run(),
            Command::Listen(listen) => runtime()?.block_on(listen.run()),
            Command::Verify(verify) => verify.run(),
            Command::Context { format, command } => command.run()?.print(format.format()),
            Command::Client(command) => command.run(),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "everhook", &mut script);
                // The script contains no text of customers, and tabs must stay.
                write_out(&String::from_utf8_lossy(&script))
            }
            Command::Man { folder } => manual(folder),
            Command::Openapi => print(&everhook_api::openapi()),
            Command::MetricsReference => print(&metrics_reference::page()),
        }
    }
}

/// Prints the manual page, or writes the pages of all commands.
fn manual(folder: Option<PathBuf>) -> anyhow::Result<()> {
    match folder {
        Some(folder) => clap_mangen::generate_to(Cli::command(), &folder)
            .with_context(|| format!("could not write to {}", folder.display())),
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            print(&String::from_utf8_lossy(&page))
        }
    }
}

impl SettingsArgs {
    /// Reads the configuration, without checking it.
    pub(crate) fn load(self, flags: Flags) -> anyhow::Result<Settings> {
        let flags = Flags { data: self.data, database: self.database, ..flags };
        Settings::load(self.config.as_deref(), flags)
    }

    /// Checks the configuration and starts the logger.
    fn start(self, flags: Flags) -> anyhow::Result<(Config, logging::Logs)> {
        let settings = self.load(flags)?;
        let config = settings.check()?;
        let logs = logging::init(&config)?;
        settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        Ok((config, logs))
    }
}

/// Runs a task on the store, beside a server that may use it.
pub(crate) fn beside<T>(
    settings: SettingsArgs,
    task: impl AsyncFnOnce(&store::Opened) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    beside_with(settings, |_| Ok(()), task)
}

/// The same, with a step before the store is opened.
pub(crate) fn beside_with<T>(
    settings: SettingsArgs,
    prepare: impl FnOnce(&Config) -> anyhow::Result<()>,
    task: impl AsyncFnOnce(&store::Opened) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let (config, _logs) = settings.start(Flags::default())?;
    prepare(&config)?;
    let done = runtime()?.block_on(async {
        let opened = store::open_beside(&config).await?;
        let done = task(&opened).await?;
        opened.close().await;
        anyhow::Ok(done)
    })?;
    note(&format!("data: {}", store::place(&config)));
    Ok(done)
}

impl ConfigCommand {
    fn run(self) -> anyhow::Result<()> {
        match self {
            ConfigCommand::Init => print(Settings::TEMPLATE),
            ConfigCommand::Reference => print(&reference_page()),
            ConfigCommand::Check { settings } => {
                settings.start(Flags::default())?;
                print("configuration is valid\n")
            }
            ConfigCommand::Show { settings } => {
                let settings = settings.load(Flags::default())?;
                let _logs = logging::init(&settings.check()?)?;
                settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
                print(&settings.show())
            }
        }
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Runtime::new().context("could not start the runtime")
}

impl TokenCommand {
    fn run(self) -> anyhow::Result<()> {
        let TokenCommand::RotateKey { settings, revoke, consent, operator } = self;
        let operator = operator.operator()?;
        let change = if revoke { TokenKeyChange::Revoke } else { TokenKeyChange::Rotate };
        if revoke {
            consent.to("end all application tokens of the server", None)?;
        }
        let text = beside(settings, async |opened| {
            keys::rotate_token_key(&*opened.store, &opened.ids, &operator, change).await
        })?;
        print(&text)
    }
}

/// Writes to stderr: a hint for people, while programs read stdout.
#[expect(clippy::print_stderr, reason = "the text is plain")]
pub(crate) fn note(text: &str) {
    eprintln!("{}", plain(text));
}

/// Writes to stdout.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    write_out(&plain(text))
}
