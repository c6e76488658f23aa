//! The keys of an open store, which seal secrets before they are written and open them when rows are decoded.
//!
//! Both SQL stores pass their [`Seal`] to the decoder of rows, so that no code above them meets a sealed text. The
//! table `seal_key` names the key that seals: every write of a secret reads it in its own transaction, so that all
//! replicas change to a new key at the same moment. A key file is read again when a text names an unknown key. So a
//! rotation needs no restart. The core decides (`core::seal`); this module reads the file and draws the nonces.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use everhook_core::id::{EnvironmentId, ID_BYTES, Id, TokenKeyId};
use everhook_core::resource::ResourceKind;
use everhook_core::seal::{
    BadSealRing, NeededKey, OpenError, SEAL_KEY_BYTES, SEAL_NONCE_BYTES, SealKey, SealKeyId, SealRefusal, SealRing,
    SealedAt, check_needed, is_sealed, key_of,
};

use crate::dedup::HASH_BYTES;
use crate::resource::Parent;

/// Rows that a rotation reads at once.
pub const RESEAL_PAGE: usize = 200;

/// The keys of a store; none if its secrets are plain text. Clones share the keys.
#[derive(Clone, Debug, Default)]
pub struct Seal(Option<Arc<Keys>>);

struct Keys {
    ring: RwLock<Arc<SealRing>>,
    /// The file to read again when a key is unknown.
    file: Option<PathBuf>,
}

/// The result of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The key that seals everything now.
    pub key: SealKeyId,
    /// Secrets that were sealed anew.
    pub sealed: u64,
    /// Keys that no secret needs any more.
    pub retired: Vec<SealKeyId>,
}

/// The primary key of a resource, as the position of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceAt {
    pub environment: EnvironmentId,
    pub kind: ResourceKind,
    pub parent: Parent,
    pub id: Id,
}

const READ_REMEDY: &str = "check that it exists and that this user may read it";
const WRITE_REMEDY: &str = "check the permissions and the free space";
const CONTENT_REMEDY: &str = "each line must be a key that `everhook secrets generate` printed";

/// The reason why keys could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("could not read the key file {}: {READ_REMEDY}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("could not write the key file {}: {WRITE_REMEDY}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the key file {} is not usable: {error}", path.display())]
    Content { path: PathBuf, error: BadSealRing },
}

impl KeyFileError {
    /// Returns what an operator can do.
    pub const fn remedy(&self) -> &'static str {
        match self {
            KeyFileError::Read { .. } => READ_REMEDY,
            KeyFileError::Write { .. } => WRITE_REMEDY,
            KeyFileError::Content { .. } => CONTENT_REMEDY,
        }
    }
}

impl Seal {
    /// Leaves secrets as plain text.
    pub const NONE: &'static Seal = &Seal(None);

    /// Uses these keys.
    pub fn of(ring: SealRing) -> Seal {
        Seal(Some(Arc::new(Keys { ring: RwLock::new(Arc::new(ring)), file: None })))
    }

    /// Uses the keys in a file, and reads it again when an unknown key appears.
    pub fn from_file(path: &Path) -> Result<Seal, KeyFileError> {
        let ring = RwLock::new(Arc::new(read_ring(path)?));
        Ok(Seal(Some(Arc::new(Keys { ring, file: Some(path.to_owned()) }))))
    }

    /// Returns the keys as they are now.
    pub fn ring(&self) -> Option<Arc<SealRing>> {
        self.0.as_ref().map(|keys| keys.ring())
    }

    /// Refuses to work without a key that the store needs.
    pub fn check(&self, needed: &[NeededKey]) -> Result<(), SealRefusal> {
        check_needed(self.ring().as_deref(), needed)
    }

    /// Opens a text of this place; a plain one stays as it is.
    pub fn open<'t>(&self, place: SealedAt<'_>, text: &'t [u8]) -> Result<Cow<'t, [u8]>, OpenError> {
        if !is_sealed(text) {
            return Ok(Cow::Borrowed(text));
        }
        let Some(keys) = &self.0 else {
            return Err(key_of(text).map_or(OpenError::Damaged, OpenError::UnknownKey));
        };
        keys.with(|ring| ring.open(place, text)).map(Cow::Owned)
    }

    pub fn open_text(&self, place: SealedAt<'_>, text: String) -> Result<String, OpenError> {
        match self.open(place, text.as_bytes())? {
            Cow::Borrowed(_) => Ok(text),
            Cow::Owned(plain) => String::from_utf8(plain).map_err(|_| OpenError::Damaged),
        }
    }

    /// Seals a text for this place with the key that the store names; leaves it plain if the store names none.
    pub fn seal<'t>(
        &self,
        current: Option<SealKeyId>,
        place: SealedAt<'_>,
        plain: &'t [u8],
    ) -> Result<Cow<'t, [u8]>, OpenError> {
        let Some(key) = current else { return Ok(Cow::Borrowed(plain)) };
        let keys = self.0.as_ref().ok_or(OpenError::UnknownKey(key))?;
        keys.with(|ring| ring.seal(key, place, plain, nonce())).map(|sealed| Cow::Owned(sealed.into_bytes()))
    }

    pub fn seal_text<'t>(
        &self,
        current: Option<SealKeyId>,
        place: SealedAt<'_>,
        plain: &'t str,
    ) -> Result<Cow<'t, str>, OpenError> {
        Ok(match self.seal(current, place, plain.as_bytes())? {
            Cow::Borrowed(_) => Cow::Borrowed(plain),
            Cow::Owned(sealed) => Cow::Owned(String::from_utf8(sealed).expect("a sealed text is ASCII")),
        })
    }

    /// Seals a stored text anew; none if it is sealed with this key already.
    pub fn reseal(&self, key: SealKeyId, place: SealedAt<'_>, text: &[u8]) -> Result<Option<Vec<u8>>, OpenError> {
        if key_of(text) == Some(key) {
            return Ok(None);
        }
        let plain = self.open(place, text)?;
        self.seal(Some(key), place, &plain).map(|sealed| Some(sealed.into_owned()))
    }
}

impl Keys {
    fn ring(&self) -> Arc<SealRing> {
        Arc::clone(&self.ring.read().expect("nothing panics while it holds this lock"))
    }

    /// Uses the keys; if one is unknown, reads the file again and tries once more.
    fn with<T>(&self, mut work: impl FnMut(&SealRing) -> Result<T, OpenError>) -> Result<T, OpenError> {
        let done = work(&self.ring());
        let (Err(OpenError::UnknownKey(_)), Some(file)) = (&done, &self.file) else { return done };
        let Ok(ring) = read_ring(file) else { return done };
        let ring = Arc::new(ring);
        *self.ring.write().expect("nothing panics while it holds this lock") = Arc::clone(&ring);
        work(&ring)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.ring().ids()).finish()
    }
}

impl ResourceAt {
    /// Comes before every resource.
    pub const START: ResourceAt = ResourceAt {
        environment: EnvironmentId(i32::MIN),
        kind: ResourceKind::Application,
        parent: Parent::NONE,
        id: Id::MIN,
    };

    /// Binds a sealed `spec` to its row: to the parent, too, because a row of another application must not open it.
    pub fn row(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(2 + 2 * ID_BYTES);
        row.extend(self.kind.to_db().to_be_bytes());
        row.extend(self.parent.0.iter().flat_map(|id| *id.as_bytes()));
        row.extend(self.id.as_bytes());
        row
    }

    pub fn place<'r>(&self, row: &'r [u8]) -> SealedAt<'r> {
        SealedAt { column: "resource.spec", environment: self.environment, row }
    }
}

/// The place of the secret of a key that signs tokens.
pub fn token_place(id: &TokenKeyId) -> SealedAt<'_> {
    SealedAt { column: "token_key.secret", environment: EnvironmentId(0), row: id.0.as_bytes() }
}

/// The place of the stored answer of a request.
pub fn answer_place(environment: EnvironmentId, hash: &[u8; HASH_BYTES]) -> SealedAt<'_> {
    SealedAt { column: "request.answer", environment, row: hash }
}

/// Opens the stored answer of a request.
pub fn open_answer(seal: &Seal, place: SealedAt<'_>, answer: Option<Bytes>) -> Result<Option<Bytes>, OpenError> {
    let Some(answer) = answer else { return Ok(None) };
    let opened = match seal.open(place, &answer)? {
        Cow::Borrowed(_) => None,
        Cow::Owned(plain) => Some(Bytes::from(plain)),
    };
    Ok(Some(opened.unwrap_or(answer)))
}

#[expect(clippy::disallowed_methods, reason = "keys are random")]
pub fn generate_key() -> SealKey {
    let mut bytes = [0; SEAL_KEY_BYTES];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    SealKey::new(bytes)
}

/// Puts a new key before the others in a key file, which is created if it does not exist.
pub fn add_key(path: &Path, key: &SealKey) -> Result<(), KeyFileError> {
    let old = match std::fs::read_to_string(path) {
        Ok(old) => old,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => HEAD.to_owned(),
        Err(source) => return Err(KeyFileError::Read { path: path.to_owned(), source }),
    };
    let comments: usize = old.lines().take_while(|line| line.starts_with('#')).map(|line| line.len() + 1).sum();
    let (head, rest) = old.split_at(comments.min(old.len()));
    write_keys(path, &format!("{head}{}\n{rest}", key.expose()))
}

/// Replaces a key file as a whole, readable for this user alone. Either the old or the new file survives a crash.
pub fn write_keys(path: &Path, text: &str) -> Result<(), KeyFileError> {
    let write = |source| KeyFileError::Write { path: path.to_owned(), source };
    let unfinished = path.with_extension("unfinished");
    let _ = std::fs::remove_file(&unfinished);
    let mut options = std::fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&unfinished).map_err(write)?;
    file.write_all(text.as_bytes()).map_err(write)?;
    file.sync_all().map_err(write)?;
    std::fs::rename(&unfinished, path).map_err(write)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Only Unix can open a folder.
    if cfg!(unix) { std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(write) } else { Ok(()) }
}

const HEAD: &str = "# Keys that seal the secrets in the database of this Everhook. The store is of no use without them: keep a\n\
                    # copy, apart from the backups of the database.\n";

fn read_ring(path: &Path) -> Result<SealRing, KeyFileError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|source| KeyFileError::Read { path: path.to_owned(), source })?;
    SealRing::parse(&text).map_err(|error| KeyFileError::Content { path: path.to_owned(), error })
}

#[expect(clippy::disallowed_methods, reason = "each sealed text has a nonce of its own")]
fn nonce() -> [u8; SEAL_NONCE_BYTES] {
    let mut bytes = [0; SEAL_NONCE_BYTES];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes
}
