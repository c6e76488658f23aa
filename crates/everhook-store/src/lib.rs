//! The storage seam: traits, parameters, results; the in-memory specification; the conformance suite.
