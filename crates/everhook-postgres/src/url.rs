//! Database URLs before a connection is made: checked, and shown without secrets.

use tokio_postgres::Config;

use crate::connection::address;
use crate::error::PostgresOpenError;

/// Refuses a URL that no connection can be made with.
pub fn check_url(url: &str) -> Result<(), PostgresOpenError> {
    let config: Config = url.parse().map_err(PostgresOpenError::BadUrl)?;
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
    let config: Config = url.parse().ok()?;
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
        for url in ["postgres://db", "postgres:///x?host=/run/pg", "postgresql://me:a%40b@a,b/x"] {
            check_url(url).unwrap();
        }
    }
}
