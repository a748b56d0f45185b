//! Ledger of buffer bytes.
