// Declares imports of style sheets.
/// <reference types="vite/client" />
