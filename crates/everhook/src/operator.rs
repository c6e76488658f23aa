//! The person behind a command that works on the store itself, and the entries of the command in the audit log.
//!
//! Commands over the API are logged by the server. Commands that open the store log themselves here, in the environment
//! that they change, or in the default one if they change the whole store.

use std::path::Path;

use anyhow::Context;
use clap::Args;
use everhook_core::audit::{AuditFacts, AuditPhase};
use everhook_core::id::EnvironmentId;
use everhook_core::limits::TITLE_CHARS_MAX;
use everhook_core::scope::Scope;
use everhook_store::ids::Ids;
use everhook_store::store::Store;

use crate::exit::usage;
use crate::keys::{DEFAULT_ENVIRONMENT, environment};
use crate::store::Opened;

/// The actor of commands that open the store.
const ACTOR: &str = "command line";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OperatorArgs {
    /// Person on whose behalf the command acts, for the audit log [default: the user of this machine].
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
}

/// The person behind a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operator {
    principal: Option<String>,
}

/// A change that a command logs.
#[derive(Debug, Default)]
pub(crate) struct LoggedChange {
    /// None for a change of the whole store.
    pub(crate) environment: Option<EnvironmentId>,
    pub(crate) action: &'static str,
    pub(crate) object: String,
    pub(crate) reason: Option<String>,
}

impl OperatorArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.principal.is_some()
    }

    /// Returns the person: as given, or as the system says.
    pub(crate) fn operator(self) -> anyhow::Result<Operator> {
        if let Some(name) = &self.principal
            && (name.is_empty() || name.chars().count() > TITLE_CHARS_MAX || name.chars().any(char::is_control))
        {
            return Err(usage(format!("--principal must have 1 to {TITLE_CHARS_MAX} characters on one line")));
        }
        Ok(Operator { principal: self.principal.or_else(system_user) })
    }
}

impl Operator {
    /// The server itself.
    pub(crate) const NOBODY: Operator = Operator { principal: None };

    /// Makes a change between two entries of the audit log. Without the first entry, the change is not made.
    pub(crate) async fn logged<T>(
        &self,
        store: &dyn Store,
        ids: &Ids,
        LoggedChange { environment: of, action, object, reason }: LoggedChange,
        change: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let of = match of {
            Some(environment) => environment,
            None => environment(store, ids, DEFAULT_ENVIRONMENT).await?.id,
        };
        let begun = AuditFacts {
            operation: ids.next(store.now().await?),
            phase: AuditPhase::Begun,
            actor: ACTOR.to_owned(),
            key: None,
            principal: self.principal.clone(),
            action: action.to_owned(),
            object,
            reason,
            status: None,
            request: None,
            before: None,
            after: None,
        };
        let scope = Scope::of(of);
        store.append_audit(scope, begun.clone()).await.context("could not write to the audit log")?;
        let done = change.await?;
        store.append_audit(scope, AuditFacts { phase: AuditPhase::Ended, ..begun }).await?;
        Ok(done)
    }

    /// Logs a change that made its store, or made it usable, and closes the store.
    pub(crate) async fn log_done(&self, opened: &Opened, change: LoggedChange) -> anyhow::Result<()> {
        let logged = self.logged(&*opened.store, &opened.ids, change, async { Ok(()) }).await;
        opened.close().await;
        logged
    }
}

/// Tells the operator about a store that could not be opened to log a command.
pub(crate) fn not_in_log(error: &anyhow::Error) -> String {
    format!("the audit log has no entry of this command: {error:#}\n")
}

/// The user of this process; after `sudo`, also the user before.
#[expect(clippy::disallowed_methods, reason = "the binary names the user of the system")]
fn system_user() -> Option<String> {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let user = process_user().or_else(|| variable("USER"))?;
    Some(match variable("SUDO_USER").filter(|before| *before != user) {
        Some(before) => format!("{before} as {user}"),
        None => user,
    })
}

/// The name of the effective user, or its number.
#[cfg(unix)]
fn process_user() -> Option<String> {
    use std::os::unix::fs::MetadataExt;

    let number = std::fs::metadata("/proc/self").ok()?.uid();
    let known = std::fs::read_to_string(Path::new("/etc/passwd")).ok();
    Some(known.and_then(|known| user_name(&known, number)).unwrap_or_else(|| format!("uid {number}")))
}

#[cfg(not(unix))]
fn process_user() -> Option<String> {
    None
}

/// Finds the name of a user in the text of `/etc/passwd`.
fn user_name(known: &str, number: u32) -> Option<String> {
    known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_the_system_is_found_by_its_number() {
        let known = "admin:x:0:0::/:/bin/sh\n\nbroken\nann:x:1001:1001::/srv/ann:/bin/sh\n";
        assert_eq!(user_name(known, 1001).as_deref(), Some("ann"));
        assert_eq!(user_name(known, 0).as_deref(), Some("admin"));
        assert_eq!(user_name(known, 7), None);
    }

    #[test]
    fn a_principal_is_one_line() {
        let operator = |name: &str| OperatorArgs { principal: Some(name.to_owned()) }.operator();
        assert_eq!(operator("ann").unwrap().principal.as_deref(), Some("ann"));
        assert!(operator("").is_err() && operator("a\nb").is_err() && operator(&"x".repeat(257)).is_err());
    }
}
