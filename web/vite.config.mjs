// Builds everything into the one file dist/report.html, which nothing is loaded beside.
import { renameSync } from 'node:fs';
import { defineConfig } from 'vite';
import { viteSingleFile } from 'vite-plugin-singlefile';

const named = {
  name: 'named-report',
  closeBundle: () => renameSync('dist/index.html', 'dist/report.html'),
};

export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true }), named],
  build: {
    // The packages in the page, with their licences.
    license: { fileName: 'licences.md' },
    target: 'es2022',
    // Browsers that know light-dark() by themselves: a chart that is saved takes its light half.
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    modulePreload: { polyfill: false },
  },
});
