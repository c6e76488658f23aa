//! Detects that the files of an open store were deleted or replaced.
//!
//! Later writes would go to files without a name, and be lost when the process ends. The writer checks after every
//! commit, before it acknowledges anything.

use std::path::{Path, PathBuf};

/// The files of a store, as they were when it was opened.
pub(crate) struct Identity {
    files: Vec<(PathBuf, FileId)>,
}

/// Device and inode.
type FileId = (u64, u64);

impl Identity {
    /// Records the current files: the database, its log and the log's index.
    pub(crate) fn of(database: &Path) -> std::io::Result<Identity> {
        let mut files = Vec::new();
        for path in [database.to_owned(), database.with_extension("db-wal"), database.with_extension("db-shm")] {
            if let Some(id) = file_id(&path)? {
                files.push((path, id));
            }
        }
        Ok(Identity { files })
    }

    /// Returns a file that no longer has its name.
    pub(crate) fn lost(&self) -> Option<&Path> {
        // If the system cannot tell, the file counts as present.
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
    // On other systems an open file cannot be deleted.
    Ok(None)
}
