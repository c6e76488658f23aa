//! Facts about a data folder, for `everhook doctor`. Changes nothing, and works beside a server.

use std::path::{Path, PathBuf};

use everhook_core::time::Timestamp;

use crate::migrate;
use crate::open::{self, ConnectionRole, SqliteOpenError};

/// A folder as it is.
#[derive(Clone, Debug)]
pub struct SqliteFacts {
    /// The database file; none if no server has been started yet.
    pub file: Option<PathBuf>,
    /// The size of the file and its log.
    pub bytes: u64,
    /// The last change of the file or its log, by the clock of this machine.
    pub changed_at: Option<Timestamp>,
    /// The versions of the schema in the file and in this binary.
    pub schema: Option<(i64, i64)>,
    /// The process that serves the folder.
    pub server: Option<u32>,
    /// The permissions of the folder; none if it does not exist.
    pub mode: Option<u32>,
}

/// Reads the facts, or the reason why no server could use the folder.
pub fn examine(folder: &Path) -> Result<SqliteFacts, SqliteOpenError> {
    open::check_version()?;
    let mode = std::fs::metadata(folder).ok().map(|found| mode(&found));
    let server = server(folder);
    let file = match open::existing_file(folder) {
        Ok(file) => file,
        Err(SqliteOpenError::Missing { .. }) => {
            return Ok(SqliteFacts { file: None, bytes: 0, changed_at: None, schema: None, server, mode });
        }
        Err(error) => return Err(error),
    };
    let conn = open::connect(&file, ConnectionRole::Read).map_err(|error| open::Cause::from(error).at(&file))?;
    let schema = (migrate::check(&conn, &file)?, migrate::known());
    let parts: Vec<_> =
        [&file, &file.with_extension("db-wal")].into_iter().filter_map(|path| std::fs::metadata(path).ok()).collect();
    Ok(SqliteFacts {
        bytes: parts.iter().map(std::fs::Metadata::len).sum(),
        changed_at: parts.iter().filter_map(changed_at).max(),
        file: Some(file),
        schema: Some(schema),
        server,
        mode,
    })
}

fn changed_at(found: &std::fs::Metadata) -> Option<Timestamp> {
    let since_1970 = found.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp::default().plus(since_1970))
}

/// The process in the lock file, if it is alive. Taking the lock to find out could make the start of a server fail.
fn server(folder: &Path) -> Option<u32> {
    let pid: u32 = std::fs::read_to_string(folder.join(open::LOCK_FILE)).ok()?.trim().parse().ok()?;
    Path::new("/proc").join(pid.to_string()).exists().then_some(pid)
}

#[cfg(unix)]
fn mode(found: &std::fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o777
}

#[cfg(not(unix))]
fn mode(_: &std::fs::Metadata) -> u32 {
    0o700
}
