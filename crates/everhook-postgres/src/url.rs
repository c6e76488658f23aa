//! Database URLs before a connection is made: checked, and shown without secrets.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use crate::connection::address;
use crate::error::PostgresOpenError;

/// A URL with the options that the driver does not know.
pub(crate) struct UrlParts {
    pub(crate) config: Config,
    /// The file of `sslrootcert`.
    pub(crate) roots: Option<PathBuf>,
}

/// Parses a URL. `sslmode=verify-full` means the same as `require`, which verifies the host, too.
pub(crate) fn parse_url(url: &str) -> Result<UrlParts, PostgresOpenError> {
    let (start, query) = url.split_once('?').unwrap_or((url, ""));
    let mut roots = None;
    let mut kept = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslrootcert", path)) => {
                roots = Some(PathBuf::from(percent_decode_str(path).decode_utf8_lossy().into_owned()));
            }
            Some(("sslmode", "verify-full")) => kept.push("sslmode=require"),
            _ => kept.push(pair),
        }
    }
    let known = if kept.is_empty() { start.to_owned() } else { format!("{start}?{}", kept.join("&")) };
    let config: Config = known.parse().map_err(PostgresOpenError::BadUrl)?;
    if roots.is_some() && config.get_ssl_mode() != SslMode::Require {
        return Err(PostgresOpenError::RootsUnused);
    }
    Ok(UrlParts { config, roots })
}

/// Refuses a URL that no connection can be made with.
pub fn check_url(url: &str) -> Result<(), PostgresOpenError> {
    let UrlParts { config, .. } = parse_url(url)?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(PostgresOpenError::NoHost);
    }
    Ok(())
}

/// Returns user, hosts and database of a URL; `None` if they cannot be told apart from a password.
pub fn shown_url(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let credentials = rest.split_once('@').map(|(credentials, rest)| {
        // A second `@`, or a query before the first one, belongs to a password that is not encoded.
        let is_certain = !rest.contains('@') && !credentials.contains('?');
        let user = credentials.split(':').next().unwrap_or_default();
        (is_certain && !user.contains('/')).then_some(user)
    });
    let user = match credentials {
        None => String::new(),
        Some(user) => format!("{}:***@", user?),
    };
    let UrlParts { config, .. } = parse_url(url).ok()?;
    Some(format!("postgres://{user}{}/{}", address(&config), config.get_dbname().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        for (url, shown) in [
            ("postgres://me:hunter2@db:5433/x?password=hunter2", Some("postgres://me:***@db:5433/x")),
            ("postgres://me:hun/ter2@db/x", Some("postgres://me:***@db:5432/x")),
            ("postgres://me:hunter2@a,b/x", Some("postgres://me:***@a:5432,b:5432/x")),
            ("postgres://me@db/x", Some("postgres://me:***@db:5432/x")),
            ("postgres://db/x?password=hunter2", Some("postgres://db:5432/x")),
            ("postgres:///x?host=/run/pg", Some("postgres:///run/pg:5432/x")),
            ("postgres://me:hun@ter2@db/x", None),
            ("postgres://me:h@u/nter2@db/x", None),
            ("postgres://me:hun?ter2@db/x", None),
            ("postgres://db/x?password=hun@ter2", None),
            ("postgres://db:5432/x?password=hun@ter2", None),
            ("host=db password=hunter2", None),
            ("", None),
        ] {
            assert_eq!(shown_url(url).as_deref(), shown, "{url}");
        }
    }

    #[test]
    fn a_url_without_a_host_is_refused() {
        for url in ["postgres://", "postgres:///x", "postgres://me:hunter2@/x", "postgresql://?sslmode=disable"] {
            let refused = check_url(url).unwrap_err();
            assert!(refused.to_string().contains("names no host") && !refused.to_string().contains("hunter2"), "{url}");
        }
        for url in ["postgres://db:port/x", "postgres://db/x?nonsense=1", "postgres://db/x?sslmode=maybe"] {
            assert!(matches!(check_url(url), Err(PostgresOpenError::BadUrl(_))), "{url}");
        }
        for url in ["postgres://db/x?sslrootcert=/a", "postgres://db/x?sslmode=prefer&sslrootcert=/a"] {
            assert!(matches!(check_url(url), Err(PostgresOpenError::RootsUnused)), "{url}");
        }
        for url in [
            "postgres://db",
            "postgres://db?sslmode=verify-full&sslrootcert=%2Fa%20b",
            "postgres:///x?host=/run/pg",
            "postgresql://me:a%40b@a,b/x",
        ] {
            check_url(url).unwrap();
        }
    }
}
