//! Log levels: one for everything, or one per target.
//!
//! Dependencies never log below info: at debug level the database client logs statement values, including payloads and
//! secrets.

use anyhow::bail;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// Prefix of the targets of this program's own crates.
const OWN: &str = "everhook";
/// Most verbose level of dependencies.
const DEPENDENCIES_MAX: LevelFilter = LevelFilter::INFO;

/// Parses a level, or levels by target, such as `info,everhook_sender=debug`.
pub(crate) fn filter(text: &str) -> anyhow::Result<Targets> {
    let (mut default, mut targets) = (None, Vec::new());
    for directive in text.split(',').map(str::trim) {
        match directive.split_once('=') {
            None => {
                if default.replace(level(directive)?).is_some() {
                    bail!("more than one level without a target: keep one of them");
                }
            }
            Some((target, level)) => targets.push((target.trim(), self::level(level.trim())?)),
        }
    }
    let default = default.unwrap_or(LevelFilter::INFO);
    let mut filter = Targets::new().with_default(default.min(DEPENDENCIES_MAX)).with_target(OWN, default);
    for (target, level) in targets {
        if target.is_empty() {
            bail!("target missing before `=`: use the form {OWN}_sender=debug");
        }
        if !target.starts_with(OWN) && level > DEPENDENCIES_MAX {
            bail!("{target} must not log below {DEPENDENCIES_MAX}: dependencies would log payloads and secrets");
        }
        filter = filter.with_target(target, level);
    }
    Ok(filter)
}

fn level(text: &str) -> anyhow::Result<LevelFilter> {
    const LEVELS: [(&str, LevelFilter); 6] = [
        ("error", LevelFilter::ERROR),
        ("warn", LevelFilter::WARN),
        ("info", LevelFilter::INFO),
        ("debug", LevelFilter::DEBUG),
        ("trace", LevelFilter::TRACE),
        ("off", LevelFilter::OFF),
    ];
    match LEVELS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)) {
        Some((_, level)) => Ok(*level),
        None => bail!("unknown level {text:?}: use error, warn, info, debug, trace or off"),
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[track_caller]
    fn check(text: &str, target: &str, most: Option<Level>) {
        let filter = filter(text).unwrap();
        let levels = [Level::TRACE, Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR];
        assert_eq!(levels.into_iter().find(|level| filter.would_enable(target, level)), most, "{text}: {target}");
    }

    #[test]
    fn a_level_is_for_everything() {
        check("warn", "everhook_api::app", Some(Level::WARN));
        check("warn", "hyper", Some(Level::WARN));
        check("INFO", "everhook", Some(Level::INFO));
        check("off", "everhook", None);
    }

    #[test]
    fn a_target_has_its_own_level_and_the_others_keep_theirs() {
        check("everhook_sender=debug", "everhook_sender::dns", Some(Level::DEBUG));
        check("everhook_sender=debug", "everhook_api", Some(Level::INFO));
        check("error, everhook_sender = trace", "everhook_api", Some(Level::ERROR));
        check("info,hyper=off", "hyper::proto", None);
    }

    #[test]
    fn dependencies_never_log_what_they_are_given() {
        for text in ["debug", "trace", "trace,tokio_postgres=info", "everhook=trace"] {
            for target in ["tokio_postgres::query", "tokio_postgres", "rusqlite", "rustls::client", "log"] {
                check(text, target, Some(Level::INFO));
            }
        }
        for text in ["tokio_postgres=debug", "tokio_postgres::query=trace", "info,t=trace", "hyper=debug"] {
            assert!(filter(text).unwrap_err().to_string().contains("must not log below info"), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "warning", "loud", "info,loud", "everhook=loud", "everhook[span]", "info,", "=info"] {
            let refused = filter(text).unwrap_err().to_string();
            assert!(refused.contains("use "), "{text}: {refused}");
        }
        assert!(filter("info,warn").unwrap_err().to_string().contains("keep one"));
    }
}
