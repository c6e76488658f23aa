export { default } from '../screens/missing';
