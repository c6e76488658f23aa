//! Notices that the files of a store were deleted or replaced while it has them open.
//!
//! Whatever is written then goes into files without a name, and is lost when the process ends. The writer looks after every
//! commit, before anything is acknowledged.

use std::path::{Path, PathBuf};

/// The files of a store, as they were when it was opened.
pub(crate) struct Identity {
    files: Vec<(PathBuf, FileId)>,
}

/// Device and inode.
type FileId = (u64, u64);

impl Identity {
    /// The files that are there now: the database, its log and the log's index.
    pub(crate) fn of(database: &Path) -> std::io::Result<Identity> {
        let mut files = Vec::new();
        for path in [database.to_owned(), database.with_extension("db-wal"), database.with_extension("db-shm")] {
            if let Some(id) = file_id(&path)? {
                files.push((path, id));
            }
        }
        Ok(Identity { files })
    }

    /// A file that is not under its name any more.
    pub(crate) fn lost(&self) -> Option<&Path> {
        // Where the system cannot tell, the file is taken to be there.
        let is_lost = |(path, id): &&(PathBuf, FileId)| file_id(path).is_ok_and(|found| found != Some(*id));
        self.files.iter().find(is_lost).map(|(path, _)| path.as_path())
    }
}

#[cfg(unix)]
fn file_id(path: &Path) -> std::io::Result<Option<FileId>> {
    use std::os::unix::fs::MetadataExt;
    match std::fs::metadata(path) {
        Ok(found) => Ok(Some((found.dev(), found.ino()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn file_id(_: &Path) -> std::io::Result<Option<FileId>> {
    // An open file cannot be deleted there.
    Ok(None)
}
