//! Sealed secrets: text that is encrypted before a store keeps it, and opened with a ring of keys.
//!
//! Pure: the caller passes the random bytes of keys and nonces. A sealed text names its key, so that several keys can
//! be in use during a rotation. It is bound to its [`SealedAt`]: a text that is copied to another row or column does
//! not open. A text without the prefix is plain, from before secrets were sealed. `everhook_store::seal` seals and
//! opens for the stores; `everhook secrets` makes keys.
//!
//! Form: `sealed:1:<key id>:<base64 of nonce, ciphertext and tag>`, encrypted with AES-256-GCM-SIV, which stays safe
//! even if a nonce repeats.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::id::EnvironmentId;
use crate::task::stored_as;

/// Bytes of a sealing key.
pub const SEAL_KEY_BYTES: usize = 32;
/// Random bytes for one sealed text.
pub const SEAL_NONCE_BYTES: usize = NONCE_LEN;
/// Bytes of the id of a key.
pub const SEAL_KEY_ID_BYTES: usize = 6;

const KEY_PREFIX: &str = "ehs_";
const SEALED_PREFIX: &str = "sealed:1:";

/// A key that seals secrets.
#[derive(Clone)]
pub struct SealKey {
    bytes: [u8; SEAL_KEY_BYTES],
    id: SealKeyId,
    cipher: Arc<LessSafeKey>,
}

/// The id of a sealing key. It follows from the key, so that a wrong key is recognised.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SealKeyId([u8; SEAL_KEY_ID_BYTES]);

/// The keys of a deployment. All of them open; the store names the one that seals. The first one is that of the next
/// rotation.
#[derive(Clone, Debug)]
pub struct SealRing {
    keys: Vec<SealKey>,
}

/// The place of a sealed text in the store, to which it is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedAt<'a> {
    /// The table and the column, such as `resource.spec`.
    pub column: &'a str,
    pub environment: EnvironmentId,
    /// The rest of the primary key.
    pub row: &'a [u8],
}

/// A key that the store needs: the one that seals now, or one that a rotation has not replaced everywhere yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededKey {
    pub id: SealKeyId,
    pub state: SealKeyState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealKeyState {
    /// Seals everything that is written.
    Current,
    /// Still opens texts; a rotation has begun and not ended.
    Retiring,
}

stored_as!(SealKeyState { Current = 0, Retiring = 1 });

const NO_KEYS_REMEDY: &str = "set secrets_key_file or EVERHOOK_SECRETS_KEYS to the keys of this store";
const MISSING_REMEDY: &str = "restore the key file of this store, or add the missing key to it";

/// The reason why a store refuses to start with its keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealRefusal {
    #[error("the secrets of this store are sealed with the key {0}, and no keys are configured: {NO_KEYS_REMEDY}")]
    NoKeys(SealKeyId),
    #[error(
        "the secrets of this store are sealed with the key {needed}, and the configured keys are only {found}: \
         {MISSING_REMEDY}"
    )]
    Missing { needed: SealKeyId, found: String },
}

impl SealRefusal {
    /// Returns what an operator can do. It is also the end of the error's text.
    pub const fn remedy(&self) -> &'static str {
        match self {
            SealRefusal::NoKeys(_) => NO_KEYS_REMEDY,
            SealRefusal::Missing { .. } => MISSING_REMEDY,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSealKey {
    #[error("must start with {KEY_PREFIX:?}")]
    Prefix,
    #[error("must have 32 bytes in base64 after {KEY_PREFIX:?}")]
    Length,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSealRing {
    #[error("line {line}: a key {error}")]
    Key { line: usize, error: BadSealKey },
    #[error("it has no key")]
    Empty,
}

/// The reason why a sealed text does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("the key {0} is not in the key file")]
    UnknownKey(SealKeyId),
    /// The text was changed, or belongs to another row or column.
    #[error("the sealed text is damaged or was moved")]
    Damaged,
}

impl OpenError {
    /// Names the secret in the error for a corrupt row.
    pub const fn column(self) -> &'static str {
        match self {
            OpenError::UnknownKey(_) => "sealed secret (its key is not in the key file)",
            OpenError::Damaged => "sealed secret (changed, or copied from another row)",
        }
    }
}

impl SealKey {
    pub fn new(bytes: [u8; SEAL_KEY_BYTES]) -> SealKey {
        let hash = digest::digest(&digest::SHA256, &[b"everhook seal key".as_slice(), &bytes].concat());
        let id = SealKeyId(*hash.as_ref().first_chunk().expect("SHA-256 has 32 bytes"));
        let cipher = UnboundKey::new(&AES_256_GCM_SIV, &bytes).expect("the algorithm takes keys of 32 bytes");
        SealKey { bytes, id, cipher: Arc::new(LessSafeKey::new(cipher)) }
    }

    pub fn id(&self) -> SealKeyId {
        self.id
    }

    /// Returns the key as a line of the key file. Never log it.
    pub fn expose(&self) -> String {
        format!("{KEY_PREFIX}{}", BASE64.encode(self.bytes))
    }
}

impl SealRing {
    pub fn new(key: SealKey) -> SealRing {
        SealRing { keys: vec![key] }
    }

    /// Parses a key file: one key a line, the sealing one first. Empty lines and lines that start with `#` are ignored.
    pub fn parse(text: &str) -> Result<SealRing, BadSealRing> {
        let lines = (1..).zip(text.lines()).map(|(line, text)| (line, text.trim()));
        let keys = lines
            .filter(|(_, text)| !text.is_empty() && !text.starts_with('#'))
            .map(|(line, text)| text.parse().map_err(|error| BadSealRing::Key { line, error }))
            .collect::<Result<Vec<SealKey>, _>>()?;
        if keys.is_empty() { Err(BadSealRing::Empty) } else { Ok(SealRing { keys }) }
    }

    /// Returns the ids of the keys, in their order.
    pub fn ids(&self) -> impl Iterator<Item = SealKeyId> {
        self.keys.iter().map(SealKey::id)
    }

    /// Returns the id of the first key, with which a rotation seals.
    pub fn first(&self) -> SealKeyId {
        self.keys[0].id
    }

    /// Encrypts a text for one place, with a key of the ring.
    pub fn seal(
        &self,
        key: SealKeyId,
        place: SealedAt<'_>,
        plain: &[u8],
        nonce: [u8; SEAL_NONCE_BYTES],
    ) -> Result<String, OpenError> {
        let key = self.find(key)?;
        let mut bytes = plain.to_vec();
        let sealed = key.cipher.seal_in_place_append_tag(Nonce::from(&nonce), place.data(), &mut bytes);
        sealed.expect("a secret is far shorter than the limit of the cipher");
        let blob = [nonce.as_slice(), &bytes].concat();
        Ok(format!("{SEALED_PREFIX}{}:{}", key.id, BASE64.encode(blob)))
    }

    /// Decrypts a text of this place. Returns a plain text as it is.
    pub fn open(&self, place: SealedAt<'_>, text: &[u8]) -> Result<Vec<u8>, OpenError> {
        let Some(sealed) = text.strip_prefix(SEALED_PREFIX.as_bytes()) else { return Ok(text.to_vec()) };
        let sealed = str::from_utf8(sealed).map_err(|_| OpenError::Damaged)?;
        let (id, blob) = sealed.split_once(':').ok_or(OpenError::Damaged)?;
        let key = self.find(SealKeyId::parse(id).ok_or(OpenError::Damaged)?)?;
        let blob = BASE64.decode(blob).map_err(|_| OpenError::Damaged)?;
        let (nonce, bytes) = blob.split_first_chunk::<SEAL_NONCE_BYTES>().ok_or(OpenError::Damaged)?;
        let mut bytes = bytes.to_vec();
        let plain = key.cipher.open_in_place(Nonce::from(nonce), place.data(), &mut bytes);
        plain.map(|plain| plain.to_vec()).map_err(|_| OpenError::Damaged)
    }

    fn find(&self, id: SealKeyId) -> Result<&SealKey, OpenError> {
        self.keys.iter().find(|key| key.id == id).ok_or(OpenError::UnknownKey(id))
    }
}

/// Whether a text has the form of a sealed one. No JSON text has it, and no key or token either.
pub fn is_sealed(text: &[u8]) -> bool {
    text.starts_with(SEALED_PREFIX.as_bytes())
}

/// Returns the key that a text is sealed with; none for a plain text.
pub fn key_of(text: &[u8]) -> Option<SealKeyId> {
    let sealed = str::from_utf8(text.strip_prefix(SEALED_PREFIX.as_bytes())?).ok()?;
    sealed.split_once(':').and_then(|(id, _)| SealKeyId::parse(id))
}

/// Refuses keys that cannot open everything in the store.
pub fn check_needed(ring: Option<&SealRing>, needed: &[NeededKey]) -> Result<(), SealRefusal> {
    let Some(ring) = ring else {
        return needed.first().map_or(Ok(()), |key| Err(SealRefusal::NoKeys(key.id)));
    };
    match needed.iter().find(|key| ring.find(key.id).is_err()) {
        Some(key) => {
            let found = ring.ids().map(|id| id.to_string()).collect::<Vec<_>>().join(", ");
            Err(SealRefusal::Missing { needed: key.id, found })
        }
        None => Ok(()),
    }
}

/// Returns the key that seals; none as long as secrets are stored as plain text.
pub fn current(needed: &[NeededKey]) -> Option<SealKeyId> {
    needed.iter().find(|key| key.state == SealKeyState::Current).map(|key| key.id)
}

impl SealedAt<'_> {
    /// The associated data. The column has no NUL, so that two places never have the same data.
    fn data(&self) -> Aad<Vec<u8>> {
        Aad::from([self.column.as_bytes(), &[0], &self.environment.0.to_be_bytes(), self.row].concat())
    }
}

impl SealKeyId {
    pub const fn from_bytes(bytes: [u8; SEAL_KEY_ID_BYTES]) -> SealKeyId {
        SealKeyId(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; SEAL_KEY_ID_BYTES] {
        &self.0
    }

    fn parse(text: &str) -> Option<SealKeyId> {
        let byte = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Vec<u8> = (0..text.len()).step_by(2).map(byte).collect::<Option<_>>()?;
        bytes.try_into().ok().map(SealKeyId)
    }
}

impl FromStr for SealKey {
    type Err = BadSealKey;

    fn from_str(text: &str) -> Result<SealKey, BadSealKey> {
        let rest = text.strip_prefix(KEY_PREFIX).ok_or(BadSealKey::Prefix)?;
        let bytes = BASE64.decode(rest).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(SealKey::new).ok_or(BadSealKey::Length)
    }
}

impl fmt::Display for SealKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SealKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKey({})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NONCE: [u8; SEAL_NONCE_BYTES] = [7; SEAL_NONCE_BYTES];

    fn place(column: &str) -> SealedAt<'_> {
        SealedAt { column, environment: EnvironmentId(1), row: &[3; 16] }
    }

    fn key(byte: u8) -> SealKeyId {
        SealKey::new([byte; SEAL_KEY_BYTES]).id()
    }

    fn ring(keys: &[u8]) -> SealRing {
        let lines: Vec<String> = keys.iter().map(|byte| SealKey::new([*byte; SEAL_KEY_BYTES]).expose()).collect();
        SealRing::parse(&lines.join("\n")).unwrap()
    }

    fn sealed(ring: &SealRing, column: &str, text: &str) -> Vec<u8> {
        ring.seal(ring.first(), place(column), text.as_bytes(), NONCE).unwrap().into_bytes()
    }

    #[test]
    fn a_sealed_text_opens_in_its_place_only() {
        let ring = ring(&[1]);
        let sealed = sealed(&ring, "endpoint.keys", "whsec_abc");
        assert!(is_sealed(&sealed) && !sealed.windows(9).any(|part| part == b"whsec_abc"));
        assert_eq!(ring.open(place("endpoint.keys"), &sealed).as_deref(), Ok(b"whsec_abc".as_slice()));
        let elsewhere = [
            place("endpoint.headers"),
            SealedAt { environment: EnvironmentId(2), ..place("endpoint.keys") },
            SealedAt { row: &[4; 16], ..place("endpoint.keys") },
        ];
        for place in elsewhere {
            assert_eq!(ring.open(place, &sealed), Err(OpenError::Damaged), "{place:?}");
        }
    }

    #[test]
    fn a_rotated_ring_opens_old_texts_and_seals_with_the_new_key() {
        let old = sealed(&ring(&[1]), "a.b", "secret");
        let rotated = ring(&[2, 1]);
        assert_eq!(rotated.open(place("a.b"), &old).as_deref(), Ok(b"secret".as_slice()));
        assert_eq!((key_of(&old), key_of(b"secret")), (Some(key(1)), None));
        assert_eq!(key_of(&sealed(&rotated, "a.b", "secret")), Some(key(2)));
        assert_eq!(ring(&[2]).open(place("a.b"), &old), Err(OpenError::UnknownKey(key(1))));
        assert_eq!(ring(&[2]).seal(key(1), place("a.b"), b"x", NONCE), Err(OpenError::UnknownKey(key(1))));
    }

    #[test]
    fn a_plain_text_stays_readable() {
        assert_eq!(ring(&[1]).open(place("a.b"), b"whsec_plain").as_deref(), Ok(b"whsec_plain".as_slice()));
        assert!(!is_sealed(b"whsec_plain"));
    }

    #[test]
    fn a_store_refuses_to_start_without_its_keys() {
        let needed = [
            NeededKey { id: key(2), state: SealKeyState::Current },
            NeededKey { id: key(1), state: SealKeyState::Retiring },
        ];
        assert_eq!(current(&needed), Some(key(2)));
        assert_eq!(check_needed(Some(&ring(&[2, 1])), &needed), Ok(()));
        assert_eq!(check_needed(None, &[]), Ok(()));
        assert_eq!(check_needed(None, &needed), Err(SealRefusal::NoKeys(key(2))));
        let missing = SealRefusal::Missing { needed: key(1), found: key(2).to_string() };
        assert_eq!(check_needed(Some(&ring(&[2])), &needed), Err(missing));
    }

    #[test]
    fn a_bad_key_file_names_its_line() {
        let parse = |text: &str| SealRing::parse(text).map(drop).map_err(|error| error.to_string());
        assert_eq!(parse("# only a comment\n\n"), Err("it has no key".to_owned()));
        assert_eq!(
            parse("# key\nehs_AAAA"),
            Err("line 2: a key must have 32 bytes in base64 after \"ehs_\"".to_owned())
        );
        assert_eq!(parse("secret"), Err("line 1: a key must start with \"ehs_\"".to_owned()));
    }

    #[test]
    fn neither_ring_nor_key_shows_its_bytes() {
        let key = SealKey::new([9; SEAL_KEY_BYTES]);
        let shown = format!("{:?} {:?}", key, SealRing::new(key.clone()));
        assert!(!shown.contains(&key.expose()[4..12]) && !shown.contains("9, 9"), "{shown}");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(sealed:1:)?[0-9a-f:é=A-Z]{0,80}") {
            let _ = ring(&[1]).open(place("a.b"), text.as_bytes());
        }

        #[test]
        fn every_text_survives(text in ".{0,200}", nonce: [u8; SEAL_NONCE_BYTES]) {
            let ring = ring(&[1]);
            let sealed = ring.seal(ring.first(), place("a.b"), text.as_bytes(), nonce).unwrap();
            prop_assert_eq!(ring.open(place("a.b"), sealed.as_bytes()), Ok(text.into_bytes()));
        }
    }
}
