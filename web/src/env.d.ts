interface ImportMetaEnv {
  readonly VITE_EXTRA_OPERATIONS?: string;
}
