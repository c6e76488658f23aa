export { default } from './missing';
