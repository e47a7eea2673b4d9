//! tek-model
