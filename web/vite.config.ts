import react from '@vitejs/plugin-react';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  plugins: [react()],
  resolve: {
    alias: {
      // Radix locks scrolling with a <style> element, which the content security policy blocks. The page itself never
      // scrolls, so nothing needs a lock.
      'react-remove-scroll': here('./src/shims/remove-scroll.tsx'),
    },
  },
  build: {
    outDir: 'dist',
    assetsDir: 'assets',
    // The policy has no `unsafe-inline`, and data: URLs are allowed for images only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    target: 'es2023',
    cssTarget: 'chrome123',
  },
  server: {
    proxy: {
      '/api': process.env.EVERHOOK_GATEWAY ?? 'http://127.0.0.1:8090',
      '/auth': process.env.EVERHOOK_GATEWAY ?? 'http://127.0.0.1:8090',
    },
  },
  test: { include: ['src/**/*.test.ts'], environment: 'node' },
});
