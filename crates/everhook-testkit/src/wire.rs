//! The part of PostgreSQL's protocol that a proxy needs to recognise a COMMIT.

/// The kind of a client's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A simple query that commits.
    Commit,
    /// The end of a request, which the server answers.
    Sync,
    Other,
}

/// Splits a client's bytes into messages.
#[derive(Debug, Default)]
pub struct Splitter {
    pending: Vec<u8>,
    /// The first messages of a connection have no type byte.
    started: bool,
}

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

impl Splitter {
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Returns the next complete message with its kind.
    pub fn next_message(&mut self) -> Option<(Kind, Vec<u8>)> {
        let number = |at: usize| Some(u32::from_be_bytes(self.pending.get(at..at + 4)?.try_into().ok()?));
        if !self.started {
            let (length, code) = (number(0)?, number(4)?);
            let message = self.take(length as usize)?;
            self.started = ![SSL_REQUEST, GSS_REQUEST].contains(&code);
            return Some((Kind::Other, message));
        }
        let length = number(1)? as usize;
        let message = self.take(length + 1)?;
        let kind = match message[0] {
            b'Q' if message[5..].to_ascii_lowercase().starts_with(b"commit") => Kind::Commit,
            b'Q' | b'S' => Kind::Sync,
            _ => Kind::Other,
        };
        Some((kind, message))
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        (self.pending.len() >= length).then(|| self.pending.drain(..length).collect())
    }
}
