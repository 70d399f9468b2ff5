// Tells the compiler of style sheets that are imported.
/// <reference types="vite/client" />
