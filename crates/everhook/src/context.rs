//! `everhook context`: named servers with their keys, in a file that only its owner can read.
//!
//! URL and key of a context belong together: the key of a context is never sent to another URL.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use everhook_core::name::Name;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::confirm::Consent;
use crate::environment;
use crate::exit::{Exit, Failure, usage};
use crate::output::Answer;
use crate::private::write_private;
use crate::remote::server_url;
use crate::table::cell;

/// Characters of a key that lists show.
const HINT_CHARS: usize = 8;

#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// Add a context, or replace the one of this name. The first context becomes the current one.
    #[command(after_help = "Examples:
  everhook context add local --url http://127.0.0.1:8071 --key ehk_…
  everhook context add prod --url https://hooks.example.com --key - --protected < key-file")]
    Add {
        /// Name of the context, such as prod.
        name: String,
        /// Address of the server, such as https://hooks.example.com.
        #[arg(long, value_name = "URL")]
        url: String,
        /// API key, or - to read it from stdin, where no list of processes shows it.
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
        /// Let destructive commands always ask for the name of the context.
        #[arg(long)]
        protected: bool,
    },
    /// Make a context the current one. Commands without --url, --context, EVERHOOK_URL and EVERHOOK_KEY use it.
    Use {
        /// Name of the context, such as prod.
        name: String,
    },
    /// List contexts. Keys are shortened.
    List,
    /// Remove a context with its key.
    Remove {
        /// Name of the context, such as prod.
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
}

/// The contexts of a user. Not `Debug`, because keys are secrets.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    context: BTreeMap<String, Context>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    pub(crate) url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    #[serde(default)]
    pub(crate) protected: bool,
}

impl ContextCommand {
    /// Runs the command on the user's file.
    pub(crate) fn run(self) -> anyhow::Result<Answer> {
        let file = file()?;
        let mut contexts = Contexts::read(&file)?;
        match self {
            ContextCommand::Add { name, url, key, protected } => {
                name.parse::<Name>().map_err(|_| usage(format!("invalid context {name:?}")))?;
                server_url("--url", &url)?;
                contexts.add(&name, Context { url, key: key.map(read_key).transpose()?, protected });
                contexts.write(&file)?;
                let is_current = contexts.current.as_deref() == Some(&name);
                let current = if is_current { ": it is the current context" } else { "" };
                Ok(Answer::line(json!({ "name": name, "current": is_current }), format!("added {name}{current}")))
            }
            ContextCommand::Use { name } => {
                contexts.find(&name)?;
                contexts.current = Some(name.clone());
                contexts.write(&file)?;
                Ok(Answer::line(json!({ "name": name, "current": true }), format!("{name} is the current context")))
            }
            ContextCommand::List => Ok(contexts.list()),
            ContextCommand::Remove { name, consent } => {
                contexts.find(&name)?;
                consent.to(&format!("remove context {name} with its key"), None)?;
                contexts.remove(&name);
                contexts.write(&file)?;
                Ok(Answer::line(json!({ "removed": name }), format!("removed {name}")))
            }
        }
    }
}

impl Contexts {
    /// Reads the contexts of the user. Without a file there are none.
    pub(crate) fn of_user() -> anyhow::Result<Contexts> {
        match environment::config_folder() {
            Some(_) => Contexts::read(&file()?),
            None => Ok(Contexts::default()),
        }
    }

    pub(crate) fn find(&self, name: &str) -> anyhow::Result<&Context> {
        self.context.get(name).ok_or_else(|| {
            Failure::error(
                Exit::NotFound,
                format!("context {name:?} not found: `everhook context list` shows all contexts"),
            )
        })
    }

    /// Returns the current context with its name.
    pub(crate) fn current(&self) -> Option<(&str, &Context)> {
        let name = self.current.as_deref()?;
        Some((name, self.context.get(name)?))
    }

    fn add(&mut self, name: &str, context: Context) {
        if self.context.is_empty() {
            self.current = Some(name.to_owned());
        }
        self.context.insert(name.to_owned(), context);
    }

    fn remove(&mut self, name: &str) {
        self.context.remove(name);
        if self.current.as_deref() == Some(name) {
            self.current = None;
        }
    }

    fn list(&self) -> Answer {
        let items = self.context.iter().map(|(name, context)| {
            let hint = context.key.as_ref().map(|key| key.chars().take(HINT_CHARS).chain(['…']).collect::<String>());
            let is_current = self.current.as_deref() == Some(name);
            json!({
                "name": name, "current": is_current, "url": context.url, "key": hint, "protected": context.protected,
            })
        });
        let row = |item: &serde_json::Value| ["name", "current", "url", "key", "protected"].map(|key| cell(item, key));
        let note = "no contexts yet: add one with `everhook context add`";
        Answer::list(items.collect(), ["NAME", "CURRENT", "URL", "KEY", "PROTECTED"], row)
            .note_if(self.context.is_empty(), note)
    }

    fn read(file: &Path) -> anyhow::Result<Contexts> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Contexts::default()),
            Err(error) => return Err(anyhow!(error).context(format!("could not read {}", file.display()))),
        };
        refuse_shared(file)?;
        toml::from_str(&text).with_context(|| format!("{} is invalid: correct or delete it", file.display()))
    }

    /// Replaces the file in one step, so that a crash leaves the old or the new one.
    fn write(&self, file: &Path) -> anyhow::Result<()> {
        let could_not = || format!("could not write {}", file.display());
        let folder = file.parent().with_context(could_not)?;
        create_private_folder(folder).with_context(could_not)?;
        let text = toml::to_string(self).with_context(could_not)?;
        let new = folder.join(format!(".contexts-{}", std::process::id()));
        write_private(&new, &text).with_context(could_not)?;
        std::fs::rename(&new, file).with_context(could_not)
    }
}

fn file() -> anyhow::Result<PathBuf> {
    let folder = environment::config_folder().context("no folder for contexts: set HOME or XDG_CONFIG_HOME")?;
    Ok(folder.join("everhook").join("contexts.toml"))
}

fn read_key(given: String) -> anyhow::Result<String> {
    let key =
        if given == "-" { std::io::read_to_string(std::io::stdin()).context("could not read stdin")? } else { given };
    let key = key.trim().to_owned();
    if key.is_empty() { Err(usage("the key is empty")) } else { Ok(key) }
}

/// Refuses a file with keys that other users can read.
fn refuse_shared(file: &Path) -> anyhow::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode =
            std::fs::metadata(file).with_context(|| format!("could not read {}", file.display()))?.permissions().mode();
        if mode & 0o077 != 0 {
            let shown = file.display();
            return Err(anyhow!("other users can read the keys in {shown}: run `chmod 600 {shown}`"));
        }
    }
    Ok(())
}

fn create_private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(url: &str) -> Context {
        Context { url: url.to_owned(), key: Some("ehk_secret".to_owned()), protected: false }
    }

    #[test]
    fn the_first_context_is_the_current_one_until_it_is_removed() {
        let mut contexts = Contexts::default();
        contexts.add("a", context("http://a"));
        contexts.add("b", context("http://b"));
        assert_eq!(contexts.current().map(|(name, _)| name), Some("a"));
        contexts.remove("a");
        assert!(contexts.current().is_none() && contexts.find("b").is_ok());
        assert_eq!(contexts.find("a").map(drop).map_err(|error| Failure::exit(&error)), Err(Exit::NotFound));
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_private_and_a_shared_one_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("everhook").join("contexts.toml");
        let mut contexts = Contexts::default();
        contexts.add("a", context("http://a"));
        contexts.write(&file).unwrap();
        contexts.write(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Contexts::read(&file).unwrap().find("a").unwrap() == &context("http://a"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Contexts::read(&file).map(drop).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }
}
