//! As much of PostgreSQL's protocol as a proxy needs to know a COMMIT when it sees one.

/// What a client says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A simple query that commits.
    Commit,
    /// The end of a request, which the server answers.
    Sync,
    /// Anything else.
    Other,
}

/// Takes a client's bytes apart into messages.
pub(crate) struct Splitter {
    pending: Vec<u8>,
    /// The first messages have no type.
    started: bool,
}

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

impl Splitter {
    pub(crate) fn new() -> Splitter {
        Splitter { pending: Vec::new(), started: false }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole message, and what it is.
    pub(crate) fn next(&mut self) -> Option<(Kind, Vec<u8>)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_known_wherever_the_bytes_are_split() {
        let mut stream = vec![0, 0, 0, 8, 4, 210, 22, 47];
        stream.extend([0, 0, 0, 9, 0, 3, 0, 0, 0]);
        stream.extend(b"S\0\0\0\x04");
        stream.extend(b"Q\0\0\0\x0bcommit\0");
        for step in 1..stream.len() {
            let mut splitter = Splitter::new();
            let mut kinds = Vec::new();
            for chunk in stream.chunks(step) {
                splitter.push(chunk);
                kinds.extend(std::iter::from_fn(|| splitter.next()).map(|(kind, _)| kind));
            }
            assert_eq!(kinds, [Kind::Other, Kind::Other, Kind::Sync, Kind::Commit]);
        }
    }
}
